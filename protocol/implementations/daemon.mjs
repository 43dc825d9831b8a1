// A daemon in Node without dependencies: the core, and the extensions agents, jobs, limits and updates.
//     node daemon.mjs FIXTURES.json SOCKET
// It serves the tools of a fixtures file (../fixtures/) on a Unix socket.

import { readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";

const [, , fixturesPath, socketPath] = process.argv;
const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));
const registry = (name) => readJson(new URL(`../registry/${name}.json`, import.meta.url));
const fixtures = readJson(fixturesPath);
const CATEGORY = Object.fromEntries(registry("faults").faults.map(({ code, category }) => [code, category]));
// This daemon is of edition 1.1: it does not know what came later, and a call is cancelled by its id alone.
const isKnown = ({ since = "1" }) => since < "1.2";
const PORTS = new Map(registry("ports").ports.filter(isKnown).filter(({ from }) => from === "agent").map((port) => [port.port, port]));
const LIMITS = { max_line_bytes: 8 << 20, in_flight: 256, waiting: 1024, jobs: 1024, in_flight_bytes: 64 << 20,
  lines_per_s: 500000, sessions: 20000, max_content_bytes: 64 << 20, out_buffer_bytes: 1 << 20, ...fixtures.limits };
const [DEPTH, HEAD] = [1000, 4096]; // 128 levels must be taken
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

class Fault extends Error {
  constructor(error, detail, extras = {}) {
    super(detail);
    this.fields = { error, category: CATEGORY[error], detail, ...extras };
  }
}
const tooMany = (what) => new Fault("too_many", `over ${what}`, { what, limit: LIMITS[what] });
const named = (name) => ({ source: name.slice(0, 128) });

// --- values ---
// Every object has a `constructor` of which no line has said anything.
const own = (object, name) => (Object.hasOwn(object ?? {}, name) ? object[name] : undefined);
const kindOf = (value) => value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;

// What the fixtures and the registry use of JSON Schema.
function violations(schema, value, path = "") {
  const wrong = (message) => [{ path, message }];
  if (schema === false) return wrong("nothing may stand here");
  const kind = kindOf(value);
  const kinds = [schema.type ?? kind].flat();
  if (!kinds.includes(kind) && !(kinds.includes("number") && kind === "integer")) return wrong(`it is no ${kinds.join(" or ")}`);
  if (kind === "array") {
    if (value.length < (schema.minItems ?? 0)) return wrong("too few items");
    return value.flatMap((item, at) => violations(schema.prefixItems?.[at] ?? schema.items ?? {}, item, `${path}/${at}`));
  }
  if (kind !== "object") return value <= schema.exclusiveMinimum || value > schema.maximum || value === Infinity ? wrong("it is out of range") : [];
  const missing = (schema.required ?? []).filter((name) => !(name in value));
  if (missing.length > 0) return wrong(`${missing[0]} is missing`);
  const ruleOf = (name) => own(schema.properties, name) ?? schema.additionalProperties ?? {};
  const step = (name) => `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return Object.entries(value).flatMap(([name, item]) => violations(ruleOf(name), item, step(name)));
}

// --- lines ---
const [TOKEN, QUOTE, COLON] = [/["{}[\]]|-?\d[\d.eE+-]*/g, /["\\]/g, /[ \t\r\n]*:[ \t\r\n]*/y];
const match = (pattern, text, at) => Object.assign(pattern, { lastIndex: at }).exec(text);
// Whether a double keeps it: an integer without fraction and exponent to the last digit, any other if it is not too large.
const isExact = (number) => (/[.eE]/.test(number) ? Number.isFinite : Number.isSafeInteger)(Number(number));

// Core, section 2.1: the members of the outermost object, how deep it goes, and whether it was read to its end.
// A member has its name, its text if it is one, the place of its value, and whether doubles hold the numbers in it.
function scan(line) {
  const text = line.toString("latin1"); // a character for each byte
  const found = Object.assign([], { depth: 0, isWhole: false });
  const change = (fields) => Object.assign(found.at(-1) ?? {}, fields);
  let [depth, at, awaiting] = [0, 0, false];
  for (let token; (token = match(TOKEN, text, at)); ) {
    const [{ 0: sign, index: start }, isValue] = [token, awaiting];
    [at, awaiting] = [start + sign.length, false];
    if (sign === "[" && depth === 0) return found;
    if (sign === '"') {
      let end = match(QUOTE, text, at);
      while (end?.[0] === "\\") end = match(QUOTE, text, end.index + 2);
      let string = "\ud800";
      try { string = JSON.parse(UTF8.decode(line.subarray(start, (at = end.index + 1)))); } catch { /* it is no string */ }
      if (!string.isWellFormed()) return found;
      if (!match(COLON, text, at)) change(isValue ? { string } : {});
      else if (depth === 1) {
        at = COLON.lastIndex;
        change({ to: start });
        awaiting = text[at] === '"';
        found.push({ name: string, from: at, isExact: true });
      }
    } else if ("{[".includes(sign)) found.depth = Math.max(found.depth, (depth += 1));
    else if (!"}]".includes(sign)) change(isExact(sign) ? {} : { isExact: false });
    else if ((depth -= 1) <= 0) return change({ to: start }), Object.assign(found, { isWhole: true });
  }
  return found;
}

const isId = (id) => typeof id === "string" && id !== "" && Buffer.byteLength(id) <= 512;
const seenIn = ({ __port: port, id, agent }) =>
  ({ port, agent: isId(agent) ? agent : undefined, ...(isId(id) ? { id, isCall: port === "tool_req" } : {}) });
// Whose failure it is that a line cannot be read: an id and an agent, where it is a request. The first of a name counts.
const readHead = (line) => seenIn(Object.fromEntries(scan(line.subarray(0, HEAD)).map(({ name, string }) => [name, string]).reverse()));

// The message of a line, or null for one that is ignored. A `Fault` that it throws has `seen`: whose failure it is.
function decode(line) {
  let object = null;
  try { object = JSON.parse(UTF8.decode(line)); } catch { /* it is no object */ }
  const members = kindOf(object) === "object" ? scan(line) : null;
  if (!members?.isWhole || members.depth > DEPTH) {
    throw Object.assign(new Fault("malformed_line", "no object in JSON and UTF-8"), { seen: readHead(line) });
  }
  const { __port: port } = object;
  const seen = seenIn(object);
  const invalid = (why) => Object.assign(new Fault("invalid_request", why), { seen });
  if (new Set(members.filter(({ name }) => name === "__port").map(({ string }) => string)).size > 1) throw invalid("two ports");
  if (!PORTS.has(port) && typeof port === "string" && port.includes("/")) return null;
  if (!PORTS.has(port)) throw invalid("unknown port");
  const last = (wanted) => members.findLast(({ name }) => name === wanted);
  const message = { port, size: line.length, isCall: seen.isCall, isExact: last("input")?.isExact ?? true };
  if (last("t")) message.json = line.toString("utf8", last("t").from, last("t").to).trimEnd().replace(/,$/, "");
  for (const { name, schema, required = port === "tool_cancel" && name === "id" } of PORTS.get(port).fields.filter(isKnown)) {
    const value = object[name];
    const isAny = Object.keys(schema).length === 0 || name === "spec";
    if (value === undefined || (value === null && !isAny && !required)) {
      if (required) throw invalid(`${name} is missing`);
    } else if (schema.maxLength ? !isId(value) : !isAny && violations(schema, value).length > 0) throw invalid(`${name} is wrong`);
    else message[name] = value;
  }
  return message;
}

// --- calls ---
const TRACE = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const BEHAVIOURS = {
  give_back: (call) => call.end(call.value),
  twice: (call) => call.end([call.value, call.value]),
  double: (call) => call.end(call.value * 2),
  discard: (call) => call.end(null),
  upper: (call) => call.end(call.value.replace(/[a-z]/g, (letter) => letter.toUpperCase())),
  trace: (call) => call.end(TRACE.test(call.request.traceparent ?? "") ? call.request.traceparent : ""),
  never: () => {},
  after_ms: (call, { ms }) => call.later(() => call.end(call.value), ms),
  fail: (call) => call.fail(new Fault("tool_failed", "it failed", { stderr_tail: "" })),
  wrong_output: (call, { gives }) => call.end(gives),
  own_error: (call, { text }) => call.finish({ content: text, is_error: true }),
  update: (call, { name, ...fields }) => {
    Object.assign(call.latest, fields);
    if (!call.job && call.session.wantsUpdates) call.session.say({ __port: "tool_update", id: call.request.id, ...fields });
    call.later(() => call.end(call.value), 20);
  },
  change_tools: (call, { tool }) => call.session.toggle(tool) ?? call.end(null),
  job_list: (call) => call.end({ jobs: call.session.jobs.map((job) => ({ ...job.shown(), content: undefined, is_read: job.isRead })) }),
  job_read: (call) => call.giveJob(),
  job_wait: (call) => call.giveJob({ waits: true }),
  job_stop: (call) => call.giveJob({ stops: true }),
};
const AT_ONCE = new Set(["give_back", "twice", "double", "discard", "upper", "wrong_output"]);
const jobTool = (name, required, more = {}) => [name, {
  description: "A tool of jobs.", output: {}, behaviour: { name }, isOfJobs: true,
  input: { type: "object", properties: { ...(required.length ? { job: { type: "string" } } : {}), ...more }, required, additionalProperties: false },
}];
const JOB_TOOLS = [jobTool("job_read", ["job"]), jobTool("job_list", []), jobTool("job_stop", ["job"]),
  jobTool("job_wait", ["job"], { timeout_s: { type: "number", exclusiveMinimum: 0, maximum: 86400 } })];

// One call, or the job that it became.
class Call {
  constructor(session, request, tool) {
    Object.assign(this, { session, request, tool, timers: [], waiters: [], latest: {}, answer: null, isRead: false, hasRun: false });
  }
  checkInput() {
    const { input } = this.tool;
    const [takesNothing, takesObject] = [input.type === "null", input.type === "object"];
    let { input: value = takesObject ? {} : null } = this.request;
    if (!("input" in this.request || takesNothing || takesObject)) throw new Fault("invalid_input", "it is missing", { violations: [] });
    const names = kindOf(value) === "object" ? Object.keys(value) : [null];
    if (takesNothing && names.length === 0) value = null;
    else if (!takesObject && names.length === 1 && names[0] === "input") value = value.input;
    if (!this.request.isExact) throw new Fault("invalid_input", "a number is out of range", { violations: [] });
    const found = violations(input, value);
    if (found.length > 0) throw new Fault("invalid_input", found[0].message, { violations: found });
    this.value = value;
  }
  start() {
    const limit_ms = Math.min(this.request.deadline_ms ?? Infinity, this.tool.limit_ms ?? Infinity, 2 ** 31 - 1);
    this.later(() => this.fail(new Fault("timeout", "it took too long", { limit_ms, stage: this.hasRun ? "run" : "queue" })), limit_ms);
  }
  run() {
    this.hasRun = true;
    BEHAVIOURS[this.tool.behaviour.name](this, this.tool.behaviour);
  }
  later(what, ms) { this.timers.push(setTimeout(what, ms)); }
  end(value) {
    const found = violations(this.tool.output, value);
    if (found.length > 0) return this.fail(new Fault("invalid_output", found[0].message, { violations: found }));
    this.finish({ content: JSON.stringify(value), is_error: false });
  }
  fail({ fields }) {
    this.finish({ content: JSON.stringify({ ...fields, ran: this.hasRun ? "maybe" : "no" }), is_error: true, fault: true });
  }
  finish(answer) {
    if (this.answer) return;
    this.answer = answer;
    this.timers.forEach(clearTimeout);
    this.waiters.forEach((tell) => tell());
    this.session.finished(this);
  }
  shown() {
    const state = this.answer ? { state: "done", ...this.answer } : { state: "running", ...this.latest };
    return { job: this.job, name: this.request.name, ...state };
  }
  giveJob({ waits = false, stops = false } = {}) {
    const job = this.session.jobs.find((each) => each.job === this.value.job);
    this.hasRun = job !== undefined;
    if (!job) return this.fail(new Fault("unknown_job", "no such job", named(this.value.job)));
    const tell = () => this.end(job.shown(), (job.isRead ||= job.answer !== null && this.answer === null));
    if (stops) job.fail(new Fault("cancelled", "it was stopped"));
    if (!waits || job.answer) tell();
    else job.waiters.push(tell);
    if (waits && this.value.timeout_s) this.later(tell, this.value.timeout_s * 1000);
  }
}

// --- sessions ---
let sessions = 0;
class Session {
  constructor(channel, hello) {
    this.profile = hello.profile ?? "default";
    const profile = own(fixtures.profiles, this.profile);
    if (!profile) throw new Fault("unknown_profile", "no such profile");
    if ((hello.schemas ?? "plain") !== "plain") throw new Fault("invalid_request", "no such form");
    if (sessions >= LIMITS.sessions) throw tooMany("sessions");
    // To ignore what narrows would widen.
    if (hello.spec !== undefined) throw new Fault("invalid_request", "there are no specs", { source: "spec" });
    sessions += 1;
    this.hasJobs = profile.jobs !== false;
    this.wantsUpdates = hello.updates === true;
    this.tools = new Map(profile.tools.map((name) => [name, fixtures.tools[name]]).filter(([, tool]) => tool.offered !== false));
    if (this.hasJobs) JOB_TOOLS.forEach(([name, tool]) => this.tools.set(name, tool));
    Object.assign(this, { channel, agent: hello.agent, state: "open", calls: new Map(), jobs: [], jobsBegun: 0, counted: [],
      changing: null, told: -1000 });
  }
  say(line) { this.channel.say({ ...line, agent: this.agent }); }
  list() {
    return [...this.tools].map(([name, { description, input }]) => {
      const properties = input.type === "null" ? {} : { input };
      const wrapped = { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
      return { name, description, input_schema: input.type === "object" ? input : wrapped };
    });
  }
  toggle(name) {
    if (!this.tools.delete(name)) this.tools.set(name, fixtures.tools[name]);
    const tell = () => {
      Object.assign(this, { changing: null, told: performance.now() });
      if (this.state !== "closed") this.say({ __port: "tools_changed", tools: this.list() });
    };
    if (this.wantsUpdates) this.changing ??= setTimeout(tell, Math.max(0, this.told + 1000 - performance.now()));
  }
  greet({ id }) {
    const capabilities = { agents: true, jobs: this.hasJobs, limits: true, updates: this.wantsUpdates };
    const limits = { line: LIMITS.max_line_bytes, in_flight: LIMITS.in_flight, content: LIMITS.max_content_bytes, depth: DEPTH };
    this.say({ __port: "ready", id, profile: this.profile, protocol: 1, tools: this.list(), warnings: [], capabilities, limits });
  }
  request(request) {
    if (this.calls.has(request.id)) throw new Fault("duplicate_id", "in flight");
    if (this.state !== "open") throw new Fault("draining", "the session is ending");
    if (request.background && !this.hasJobs) throw new Fault("not_allowed", "there are no jobs");
    const [tool, others] = [this.tools.get(request.name), own(fixtures.tools, request.name)];
    const isOthers = others !== undefined && others.offered !== false;
    if (!tool) throw new Fault(isOthers ? "not_allowed" : "unknown_tool", "no tool of this agent", named(request.name));
    const call = new Call(this, request, tool);
    this.calls.set(request.id, call);
    try {
      if (tool.isOfJobs && request.background) throw new Fault("invalid_request", "tools of jobs run at once");
      call.checkInput();
      if (!tool.isOfJobs) this.#admit(call);
    } catch (fault) { return call.fail(fault); }
    call.start();
    if (request.background) {
      call.job = `job-${(this.jobsBegun += 1)}`;
      this.jobs.push(call);
      this.calls.delete(request.id);
      this.channel.answer(request, { content: JSON.stringify({ job: call.job }), is_error: false });
    }
    if (this.counted.indexOf(call) < LIMITS.in_flight) call.run();
  }
  // Room for the call; `counted` has those that take a place, the first `in_flight` of which run.
  #admit(call) {
    const { request, tool } = call;
    const full = (queue) => new Fault("queue_full", "too many calls", { queue, retry_after_ms: 1000 });
    if (request.background && this.jobs.length >= LIMITS.jobs) {
      const read = this.jobs.findIndex((job) => job.answer && job.isRead);
      if (read < 0) throw full("jobs");
      this.jobs.splice(read, 1);
    }
    if (AT_ONCE.has(tool.behaviour.name)) return;
    if (this.counted.length >= LIMITS.in_flight + LIMITS.waiting) throw full("agent");
    const held = this.counted.reduce((sum, each) => sum + each.request.size, 0);
    if (held > 0 && held + request.size > LIMITS.in_flight_bytes) throw tooMany("in_flight_bytes");
    this.counted.push(call);
  }
  finished(call) {
    if (!call.job) {
      this.calls.delete(call.request.id);
      this.channel.answer(call.request, call.answer);
    }
    this.counted = this.counted.filter((each) => each !== call);
    this.counted.slice(0, LIMITS.in_flight).filter(({ hasRun }) => !hasRun).forEach((next) => next.run());
    this.settle();
  }
  end(bye = null) {
    if (this.state === "open") Object.assign(this, { state: "ending", bye });
    this.jobs.forEach((job) => job.fail(new Fault("cancelled", "the session is ending")));
    this.settle();
  }
  settle() {
    if (this.state !== "ending" || this.calls.size > 0) return;
    this.state = "closed";
    sessions -= 1;
    if (this.bye) this.say({ __port: "bye", id: this.bye.id });
    this.channel.left(this);
  }
}

// --- channels ---
const WITH_ID = new Set(["hello", "tools", "ping", "bye"]);
const SPARED = new Set(["bye", "pong", "tool_cancel", "approve_resp", "ask_resp"]);
class Channel {
  constructor(stream) {
    Object.assign(this, { stream, own: undefined, named: new Map(), line: 0, refusal: null, isEnding: false, isGone: false });
    Object.assign(this, { parts: [], held: 0, tokens: LIMITS.lines_per_s, filled: performance.now() });
    stream.on("data", (chunk) => this.#feed(chunk)).on("end", () => this.#end());
    stream.on("close", () => this.#gone()).on("error", () => this.#gone());
  }
  say(line) { this.#write(JSON.stringify(line)); }
  #write(json) {
    if (!this.isGone) this.stream.write(`${json}\n`);
    const isBehind = this.stream.writableLength > LIMITS.out_buffer_bytes && !this.stream.isPaused();
    if (isBehind) this.stream.pause().once("drain", () => this.stream.resume());
  }
  answer({ id, agent }, outcome) { this.say({ __port: "tool_resp", id, ...outcome, agent }); }
  #feed(chunk) {
    let from = 0;
    for (let at; (at = chunk.indexOf(10, from)) >= 0; from = at + 1) {
      this.#keep(chunk.subarray(from, at));
      this.#finish();
    }
    this.#keep(chunk.subarray(from));
  }
  // No more of a line than its limit; one that is longer is told of when its end has come.
  #keep(piece) {
    if (this.held <= LIMITS.max_line_bytes && piece.length > 0) this.parts.push(piece);
    this.held += piece.length;
  }
  #finish() {
    const [line, isTooLong, now] = [Buffer.concat(this.parts), this.held > LIMITS.max_line_bytes, performance.now()];
    const tokens = Math.min(LIMITS.lines_per_s, this.tokens + ((now - this.filled) * LIMITS.lines_per_s) / 1000) - 1;
    Object.assign(this, { parts: [], held: 0, line: this.line + 1, tokens: tokens < 0 ? tokens + 1 : tokens, filled: now });
    if (this.isGone || (!isTooLong && line.every((byte) => byte === 32 || byte === 9 || byte === 13))) return;
    let seen = {};
    try {
      if (isTooLong) throw Object.assign(new Fault("line_too_long", "too long"), { seen: readHead(line) });
      const message = (seen = decode(line));
      if (message === null) return;
      if (tokens < 0 && !SPARED.has(message.port)) throw tooMany("lines_per_s");
      this[message.port]?.(message);
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      this.#tell(fault.seen && tokens < 0 ? tooMany("lines_per_s") : fault, fault.seen ?? seen);
    }
  }
  #tell(fault, seen) {
    const isInFlight = seen.isCall && this.#of(seen.agent)?.calls.has(seen.id);
    const { fields } = isInFlight ? new Fault("duplicate_id", "this id is in flight") : fault;
    const id = isInFlight || WITH_ID.has(seen.port) ? seen.id : undefined;
    if (seen.isCall && !isInFlight) this.answer(seen, { content: JSON.stringify(fields), is_error: true, fault: true });
    else this.say({ __port: "fault", ...fields, line: this.line, id, agent: seen.agent });
  }
  #of(agent) { return agent === undefined ? this.own : this.named.get(agent); }
  #open(hello) {
    try {
      if (this.refusal && hello.agent === undefined) throw this.refusal;
      if (this.isEnding) throw new Fault("draining", "no more sessions");
      const session = new Session(this, hello);
      if (hello.agent === undefined) this.own = session;
      else this.named.set(hello.agent, session);
      return session;
    } catch (fault) {
      const isMistake = fault.fields.error === "invalid_request";
      if (!isMistake && hello.port === "hello" && hello.agent === undefined && this.named.size === 0) this.#refuse(fault);
      throw fault;
    }
  }
  #refuse(fault) {
    Object.assign(this, { refusal: this.refusal ?? fault, isEnding: true });
    setImmediate(() => this.#close());
  }
  // The session of a line; the own one is opened by it.
  #session(message) {
    const session = this.#of(message.agent);
    if (!session && message.agent !== undefined) throw new Fault("unknown_agent", "no such agent");
    return session ?? this.#open({ port: message.port });
  }
  hello(hello) {
    const session = this.#of(hello.agent);
    if (session) throw new Fault(session.state === "open" ? "invalid_request" : "draining", "there is a session already");
    if (this.isEnding || (hello.agent === undefined && this.refusal)) throw new Fault("draining", "no more sessions");
    if (!(hello.protocol ?? [1]).includes(1)) throw new Fault("unsupported_version", "version 1 alone", { supported: [1] });
    this.#open(hello).greet(hello);
  }
  tool_req(request) { this.#session(request).request(request); }
  tools(message) {
    if ((message.schemas ?? "plain") !== "plain") throw new Fault("invalid_request", "no such form");
    const session = this.#session(message);
    session.say({ __port: "tools", id: message.id, tools: session.list() });
  }
  tool_cancel(message) { this.#reply(message)?.calls.get(message.id)?.fail(new Fault("cancelled", "it was cancelled")); }
  approve_resp(message) { this.#reply(message); }
  ask_resp(message) { this.#reply(message); }
  // What concerns an own session that is not open concerns nothing.
  #reply(message) { return message.agent === undefined ? this.own : this.#session(message); }
  // A number in `t` may be one that no double holds.
  ping({ id, json }) { this.#write(JSON.stringify({ __port: "pong", id }).slice(0, -1) + (json ? `,"t":${json}}` : "}")); }
  bye(message) {
    if (this.own || message.agent !== undefined) this.#session(message).end(message);
    else if (!this.isLeft) {
      this.say({ __port: "bye", id: message.id });
      Object.assign(this, { isLeft: true, refusal: this.refusal ?? new Fault("draining", "the session is over") });
      if (this.named.size === 0) this.#refuse(this.refusal);
    }
  }
  left(session) {
    if (session.agent !== undefined) this.named.delete(session.agent);
    this.isEnding ||= (this.refusal !== null || this.own?.state === "closed") && this.named.size === 0;
    setImmediate(() => this.#close());
  }
  #close() {
    const isOver = this.isEnding || this.refusal !== null || this.own?.state === "closed";
    if (isOver && this.named.size === 0 && (this.own?.state ?? "closed") === "closed" && !this.isGone) this.stream.end();
  }
  #end() {
    if (this.held > 0 && (this.named.size > 0 || !(this.own?.bye ?? this.isLeft))) this.#finish();
    this.isEnding = true;
    const sessions = [this.own, ...this.named.values()];
    sessions.forEach((session) => session?.end());
    this.#close();
    return sessions;
  }
  #gone() {
    Object.assign(this, { isGone: true, held: 0 });
    this.#end().forEach((session) => session?.calls.forEach((call) => call.fail(new Fault("cancelled", "the agent is gone"))));
  }
}

rmSync(socketPath, { force: true });
createServer({ allowHalfOpen: true }, (stream) => new Channel(stream)).listen(socketPath);
process.on("SIGTERM", () => process.exit(0));
