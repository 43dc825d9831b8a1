// An agent in plain Node: `node agent.mjs SOCKET`, or `tooldispatchd run -- node agent.mjs`.
import { connect, Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const path = process.argv[2]; // without one, `tooldispatchd run` has put the channel there, and has said hello
const answers = path ? connect(path) : new Socket({ fd: 5, readable: true, writable: false });
const requests = path ? answers : new Socket({ fd: 4, readable: false, writable: true });
const lines = createInterface({ input: answers })[Symbol.asyncIterator]();
let ids = 0;

function end(why) {
  console.error(why);
  process.exit(1);
}
for (const stream of new Set([answers, requests])) stream.on("error", (error) => end(error.message));

const say = (message) => requests.write(JSON.stringify(message) + "\n");

// The next line of that port; a port that we do not know is none of our business.
async function hear(port, id) {
  for (;;) {
    const { value, done } = await lines.next();
    if (done) end("the daemon closed the channel");
    const said = JSON.parse(value);
    if (said.__port === port && said.id === id) return said;
    if (said.__port === "fault") end(`${said.error}: ${said.detail}`);
  }
}

// The codes after which the same call may succeed later.
const LATER = new Set(["server_unavailable", "queue_full", "rate_limited", "too_many", "draining"]);

// The answer to a call. It is made again only if that may help, and if nothing of the tool was begun.
async function call(name, input) {
  let answer, fault;
  for (const wait_ms of [100, 1000, null]) {
    const id = String(++ids);
    say({ __port: "tool_req", id, name, input });
    answer = await hear("tool_resp", id);
    fault = answer.fault ? JSON.parse(answer.content) : {};
    if (!LATER.has(fault.error) || fault.ran !== "no" || wait_ms === null) break;
    await sleep(fault.retry_after_ms ?? wait_ms);
  }
  if (fault.error === "unknown_tool" && fault.did_you_mean) {
    console.log(`${name}: there is no such tool; trying ${fault.did_you_mean}`);
    return call(fault.did_you_mean, input);
  }
  console.log(`${name}: ${answer.is_error ? "error: " : ""}${fault.detail ?? answer.content}`);
  return answer;
}

say({ __port: path ? "hello" : "tools" });
const { tools } = await hear(path ? "ready" : "tools");
console.log("tools:", ...tools.map((tool) => tool.name));
await call("echo", "hello");
await call("gret", { name: "Ada" });
await call("greet", { nom: "Ada" });
say({ __port: "bye" });
await hear("bye");
process.exit(0);
