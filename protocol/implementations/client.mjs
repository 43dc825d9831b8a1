// An agent in Node, without packages: TOOLDISPATCHD_SOCKET=PATH node client.mjs, or node client.mjs PATH, or
// tooldispatchd run -- node client.mjs, which puts the channel on the descriptors 4 and 5 and has said hello.
// It lists the tools, makes the calls that the conformance runner asks of an agent, and prints what became of each.
import { connect, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

// The codes whose retry is "later"; a call that failed with any other is not repeated.
const LATER = new Set(["server_unavailable", "queue_full", "rate_limited", "too_many", "draining"]);
const path = process.env.TOOLDISPATCHD_SOCKET ?? process.argv[2];
const answers = path ? connect(path) : new Socket({ fd: 5, readable: true, writable: false });
const requests = path ? answers : new Socket({ fd: 4, readable: false, writable: true });
const waiting = new Map(); // what to do with an answer, by port and id
let [lines, ids] = [0, 0];

const say = (line) => requests.write(`${JSON.stringify(line)}\n`, () => {}) && (lines += 1);

// The answer to a line; a `fault` line about it is one too, and names it by its number where it has no id.
function ask(line, port = line.__port) {
  return new Promise((resolve) => {
    waiting.set(`${port} ${line.id}`, { resolve, line: lines + 1 });
    say(line);
  });
}

function take(line) {
  if (line.__port === "ping") say({ __port: "pong", t: line.t });
  if (line.__port === "fault") console.log(`fault: ${line.error}: ${line.detail}`);
  for (const [key, { resolve, line: number }] of waiting) {
    if (line.__port === "fault" ? line.line !== number : key !== `${line.__port} ${line.id}`) continue;
    waiting.delete(key);
    resolve(line);
  }
}

// What became of a call: its `content`, and the `fault` if the daemon wrote it.
async function call(name, input) {
  for (let tries = 3; ; tries -= 1) {
    const answer = await ask({ __port: "tool_req", id: String(++ids), name, input }, "tool_resp");
    const fault = answer.__port === "fault" ? answer : answer.fault && JSON.parse(answer.content);
    if (LATER.has(fault?.error) && fault.ran !== "maybe" && tries > 1) {
      await sleep(fault.retry_after_ms ?? 1000);
      continue;
    }
    console.log(`${name}: ${fault?.error ?? answer.content}`);
    return { ...answer, fault };
  }
}

let heard = Buffer.alloc(0);
answers.on("data", (chunk) => {
  heard = Buffer.concat([heard, chunk]);
  for (let end; (end = heard.indexOf(10)) >= 0; heard = heard.subarray(end + 1)) take(JSON.parse(heard.subarray(0, end)));
});
answers.on("close", () => process.exit(console.error("the channel ended too early") ?? 1)); // it is 0 after `bye`
for (const stream of new Set([answers, requests])) stream.on("error", (error) => console.error(error.message));

const { tools } = await ask({ __port: "tools" });
console.log("tools:", ...tools.map(({ name }) => name));
const { content: a } = await call("echo", "a");
const [{ content: b }, { content: c }] = await Promise.all([call("slow", "b"), call("echo", "c")]);
const { fault } = await call("fails", {});
await call("report", { a, b, c, fails: fault?.category });
await ask({ __port: "bye" });
process.exit(0);
