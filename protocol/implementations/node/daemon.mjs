// A minimal daemon: core, agents, jobs, updates, limits and short requests; its tools are a set of fixtures.
// Usage: node daemon.mjs FIXTURES.json SOCKET. No dependencies; Node 20 or newer.

import { readFileSync } from "node:fs";
import net from "node:net";

const FIXTURES = JSON.parse(readFileSync(process.argv[2], "utf8"));
const LIMITS = {
  max_line_bytes: 8388608, in_flight: 256, waiting: 1024, in_flight_bytes: 67108864,
  jobs: 1024, sessions: 20000, lines_per_s: 500000, ...FIXTURES.limits,
};
const CATEGORY = Object.fromEntries(Object.entries({
  invalid: "malformed_line line_too_long invalid_request duplicate_id invalid_input invalid_output unsupported_version",
  not_found: "unknown_tool unknown_agent unknown_profile unknown_job",
  denied: "not_allowed",
  unavailable: "timeout queue_full too_many draining cancelled",
  internal: "tool_failed",
}).flatMap(([category, codes]) => codes.split(" ").map((code) => [code, category])));
const JOB_TOOLS = ["job_read", "job_wait", "job_list", "job_stop"];
const ASKING = ["hello", "tools", "ping", "bye"];
const ANSWERS = ["bye", "tool_cancel", "approve_resp", "ask_resp"];
const NO = { ran: "no" };
const MAYBE = { ran: "maybe" };
let sessions = 0;

const fault = (error, detail, extras = {}) => ({ error, category: CATEGORY[error], detail, ...extras });
const isName = (value) => typeof value === "string" && value !== "" && Buffer.byteLength(value) <= 512;
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// --- reading lines ---

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g;

/** The members at the top of an object, each with the text of its value. */
function members(text) {
  const found = [];
  let depth = 0, name = null, begin = 0;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (depth === 1 && name === null && token[0] === '"') name = JSON.parse(token);
    else if (depth === 1 && token === ":" && begin === 0) begin = index + 1;
    else if (depth === 1 && (token === "," || token === "}") && name !== null) {
      found.push([name, text.slice(begin, index).trim()]);
      name = null;
      begin = 0;
    }
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
  }
  return found;
}

/** What a line without a value may still say of itself: by the algorithm of a readable id. */
function peek(bytes) {
  const head = bytes.subarray(0, 4096).toString("latin1");
  const outer = {}, inner = {};
  let depth = 0, inMsg = false, key = null;
  for (const { 0: token, 1: literal, 2: colon, index } of head.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:\s*)?|[{}[\]]|"/g)) {
    if (token === '"') break;
    const members = inMsg ? inner : outer;
    if (literal !== undefined) {
      let text;
      try { text = JSON.parse(Buffer.from(literal, "latin1").toString("utf8")); } catch { break; }
      if (colon === undefined) {
        if (key !== null) members[key] = text;
        key = null;
      } else if (depth === (inMsg ? 2 : 1) && !(text in members)) {
        members[text] = null;
        key = '"{['.includes(head[index + token.length] ?? " ") ? text : null;
      } else key = null;
    } else {
      inMsg = "{[".includes(token) ? inMsg || (depth === 1 && key === "msg" && token === "{") : inMsg && depth > 2;
      depth += "{[".includes(token) ? 1 : -1;
      key = null;
      if (depth <= 0) break;
    }
  }
  const agent = "agent" in outer ? outer.agent : inner.agent;
  const port = outer.__port;
  if ("id" in outer) return { id: outer.id, port, agent: outer.agent, form: "__port" in outer ? "full" : "short" };
  return { id: port === "tool_req" ? inner.id : undefined, port, agent, form: "nested" };
}

/** The object of a line, or null where it is malformed. */
function read(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const value = JSON.parse(text);
    const lone = /(^|[^\\])(\\\\)*\\u[dD][89a-fA-F]/.test(text) && !isWellFormed(value);
    return isObject(value) && !lone ? { value, text } : null;
  } catch { return null; }
}

function isWellFormed(value) {
  if (typeof value === "string") return value.isWellFormed();
  return typeof value !== "object" || value === null || Object.entries(value).flat().every(isWellFormed);
}

/** Whether a double holds each number of a text. */
function keepsNumbers(text) {
  if (!/\d{16}|\d[eE]/.test(text)) return true;
  const numbers = text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/g, "").match(/-?\d[\d.eE+-]*/g) ?? [];
  return numbers.every((number) => Number.isFinite(+number) && (/[.eE]/.test(number) || Number.isSafeInteger(+number)));
}

// --- inputs ---

/** The paths at which a value breaks a schema of the fixtures. */
function wrong(schema, value, path = "") {
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const fits = !schema.type || schema.type === kind || (schema.type === "integer" && Number.isInteger(value));
  if (!fits) return [path];
  if (schema.type !== "object") return [];
  const known = schema.properties ?? {};
  const extra = schema.additionalProperties === false && Object.keys(value).some((name) => !(name in known));
  const missing = (schema.required ?? []).some((name) => !(name in value));
  const inside = Object.keys(value).filter((name) => name in known);
  return [...(extra || missing ? [path] : []), ...inside.flatMap((name) => wrong(known[name], value[name], `${path}/${name}`))];
}

/** The input as the tool takes it, or `{ fault }`. */
function taken(tool, body, raw) {
  const invalid = (paths) => {
    const violations = paths.map((path) => ({ path, message: "this does not fit the schema" }));
    return { fault: fault("invalid_input", "the input is wrong", { violations, ...NO }) };
  };
  const { type } = tool.input;
  let { input } = body;
  if (input === undefined) input = { object: {}, null: null }[type];
  if (input === undefined || !keepsNumbers(raw)) return invalid([]);
  if (type !== "object" && isObject(input) && Object.keys(input).join() === "input") input = input.input;
  else if (type === "null" && isObject(input) && Object.keys(input).length === 0) input = null;
  if (wrong(tool.input, input).length === 0) return { input };
  if (type === "object" && isObject(input)) {
    const optional = (name) => name in tool.input.properties && !(tool.input.required ?? []).includes(name);
    input = Object.fromEntries(Object.entries(input).filter(([name, value]) => value !== null || !optional(name)));
  }
  const paths = wrong(tool.input, input);
  return paths.length === 0 ? { input } : invalid(paths);
}

// --- tools ---

const INLINE = {
  give_back: (input) => input,
  twice: (input) => [input, input],
  discard: () => null,
  double: (input) => input * 2,
};
const LATER = {
  ask: () => ({ refused: true }),
  own_error: (_input, { text }) => ({ own: text }),
  change_tools: () => null,
  upper: (input) => input.replace(/[a-z]/g, (letter) => letter.toUpperCase()),
  after_ms: (input) => input,
  update: (input) => input,
  fail: () => fault("tool_failed", "the tool failed", MAYBE),
  wrong_output: () => fault("invalid_output", "the output is wrong", { violations: [{ path: "", message: "wrong" }], ...MAYBE }),
  trace: (_input, _does, body) => (/^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/.test(body.traceparent ?? "") ? body.traceparent : ""),
};

function shown(name) {
  const { description, title, input } = FIXTURES.tools[name];
  const empty = { type: "object", properties: {}, additionalProperties: false };
  const wrapped = { ...empty, properties: { input }, required: ["input"] };
  const schema = input.type === "object" ? input : input.type === "null" ? empty : wrapped;
  return { name, description, ...(title && { title }), input_schema: schema };
}

// --- sessions ---

class Session {
  constructor(channel, name, profile, hello) {
    Object.assign(this, { channel, name, profile, updates: hello.updates === true });
    this.calls = new Map(); // by their ids, those without an answer
    this.places = []; // calls and jobs that run or wait: the first `in_flight` of them run
    this.jobs = new Map();
    this.begun = 0;
    this.offered = new Set(this.spec.tools.filter((one) => FIXTURES.tools[one].offered !== false));
    this.isEnding = false;
    sessions++;
  }

  get spec() { return FIXTURES.profiles[this.profile]; }
  get hasJobs() { return this.spec.jobs !== false; }
  get mine() { return this.name === undefined ? {} : { agent: this.name }; }

  tools() {
    const jobs = JOB_TOOLS.map((name) => ({ name, description: "A tool of jobs.", input_schema: { type: "object" } }));
    return [...[...this.offered].map(shown), ...(this.hasJobs ? jobs : [])];
  }

  request(body, form, raw) {
    const reply = (result) => this.channel.answer(body, form, result);
    if (this.isEnding) return reply(fault("draining", "the session is ending"));
    if (body.background && !this.hasJobs) return reply(fault("not_allowed", "there are no jobs for this agent"));
    if (this.hasJobs && JOB_TOOLS.includes(body.name)) {
      if (body.background) return reply(fault("invalid_request", "this never runs in the background"));
      return this.useJob(body, form, reply);
    }
    if (!this.offered.has(body.name)) {
      const isMine = this.spec.tools.includes(body.name);
      const code = body.name in FIXTURES.tools && !isMine ? "not_allowed" : "unknown_tool";
      return reply(fault(code, "there is no such tool for this agent", { source: body.name }));
    }
    const tool = FIXTURES.tools[body.name];
    const found = taken(tool, body, raw);
    if (found.fault) return reply(found.fault);
    const run = INLINE[tool.behaviour.name];
    if (run === undefined) {
      if (this.places.length >= LIMITS.in_flight + LIMITS.waiting) return reply(full("agent"));
      const bytes = this.places.reduce((sum, call) => sum + call.bytes, raw.length);
      const { in_flight_bytes: limit } = LIMITS;
      if (this.places.length > 0 && bytes > limit) return reply(fault("too_many", "too much", { what: "in_flight_bytes", limit, ...NO }));
    }
    const call = { body, form, tool, input: found.input, bytes: raw.length };
    if (body.background && !this.openJob(call)) return reply(full("jobs"));
    if (call.job) reply({ job: call.job.job });
    if (run !== undefined) return call.job ? this.finish(call, run(found.input)) : reply(run(found.input));
    if (!call.job) this.calls.set(body.id, call);
    this.places.push(call);
    if (body.deadline_ms) call.timer = setTimeout(() => this.expire(call, body.deadline_ms), body.deadline_ms);
    this.startNext();
  }

  startNext() {
    for (const call of this.places.slice(0, LIMITS.in_flight)) {
      if (call.runs) continue;
      call.runs = true;
      const { behaviour, limit_ms: limit } = call.tool;
      if (limit) call.limit = setTimeout(() => this.expire(call, limit), limit);
      if (behaviour.name === "never") continue;
      if (behaviour.name === "update") this.update(call, behaviour);
      call.end = setTimeout(() => this.finish(call, LATER[behaviour.name](call.input, behaviour, call.body)), behaviour.ms ?? 5);
    }
  }

  update(call, { name, ...said }) {
    if (call.job) Object.assign(call.job, said);
    else if (this.updates) this.channel.say({ __port: "tool_update", id: call.body.id, ...this.mine, ...said });
  }

  expire(call, limit_ms) {
    const stage = call.runs ? "run" : "queue";
    this.finish(call, fault("timeout", `it was not done within ${limit_ms} ms`, { limit_ms, stage, ...(call.runs ? MAYBE : NO) }));
  }

  cancel(call) {
    this.finish(call, fault("cancelled", "the call was cancelled", call.runs ? MAYBE : NO));
  }

  finish(call, result) {
    for (const timer of [call.timer, call.limit, call.end]) clearTimeout(timer);
    this.places = this.places.filter((one) => one !== call);
    if (call.job) this.finishJob(call.job, result);
    else {
      this.calls.delete(call.body.id);
      this.channel.answer(call.body, call.form, result);
    }
    if (call.tool?.behaviour.name === "change_tools") this.toggle(call.tool.behaviour.tool);
    this.startNext();
    this.settle();
  }

  toggle(name) {
    if (!this.offered.delete(name)) this.offered.add(name);
    if (!this.updates || this.told) return;
    // At most once a second.
    const tell = () => {
      this.told = null;
      this.toldAt = performance.now();
      if (!this.isOver) this.channel.say({ __port: "tools_changed", ...this.mine, tools: this.tools() });
    };
    const wait = this.toldAt === undefined ? 0 : this.toldAt + 1000 - performance.now();
    if (wait <= 0) tell();
    else this.told = setTimeout(tell, wait);
  }

  end(bye) {
    this.isEnding = true;
    this.bye = bye;
    for (const call of this.places.filter((one) => one.job)) this.cancel(call);
    this.settle();
  }

  settle() {
    if (!this.isEnding || this.isOver || this.calls.size > 0 || this.places.length > 0) return;
    this.isOver = true;
    sessions--;
    if (this.bye) this.channel.say({ __port: "bye", ...this.mine, ...idOf(this.bye) });
    if (this.name !== undefined) this.channel.named.delete(this.name);
    this.channel.settle();
  }

  // --- jobs ---

  openJob(call) {
    const unread = [...this.jobs.values()].filter((job) => !job.isRead).length;
    if (unread >= LIMITS.jobs) return false;
    for (const [name, job] of this.jobs) if (job.isRead && this.jobs.size >= LIMITS.jobs) this.jobs.delete(name);
    call.job = { job: `j${++this.begun}`, name: call.body.name, state: "running", call, waiting: [] };
    this.jobs.set(call.job.job, call.job);
    return true;
  }

  finishJob(job, result) {
    const { content, ...more } = outcome(result);
    for (const name of ["progress", "total", "message"]) delete job[name];
    Object.assign(job, { state: "done", ...more, content });
    for (const waiter of job.waiting.splice(0)) waiter();
  }

  useJob(body, form, reply) {
    const input = body.input ?? {};
    if (body.name === "job_list") return reply({ jobs: [...this.jobs.values()].map((job) => ({ ...seen(job, false), is_read: job.isRead === true })) });
    const limit = input.timeout_s;
    if (typeof input.job !== "string" || (limit !== undefined && !(limit > 0))) {
      return reply(fault("invalid_input", "a job is missing", { violations: [{ path: "/job", message: "missing" }], ...NO }));
    }
    const job = this.jobs.get(input.job);
    if (!job) return reply(fault("unknown_job", "there is no such job", { source: input.job }));
    const give = () => {
      if (job.state === "done") job.isRead = true;
      return seen(job, true);
    };
    if (body.name === "job_stop" && job.state === "running") this.cancel(job.call);
    if (body.name !== "job_wait" || job.state === "done") return reply(give());
    const call = { body, form, runs: true };
    this.calls.set(body.id, call);
    const done = () => { if (this.calls.get(body.id) === call) this.finish(call, give()); };
    job.waiting.push(done);
    if (limit !== undefined) call.timer = setTimeout(done, limit * 1000);
  }
}

const full = (queue) => fault("queue_full", "too many calls are waiting", { queue, retry_after_ms: 1000, ...NO });
const seen = ({ job, name, state, progress, total, message, is_error, fault, content }, whole) =>
  ({ job, name, state, progress, total, message, is_error, fault, ...(whole && { content }) });
const outcome = (result) => {
  if (isObject(result) && typeof result.own === "string") return { content: result.own, is_error: true };
  const isFault = isObject(result) && result.error in CATEGORY && "category" in result;
  return { content: JSON.stringify(result), is_error: isFault, ...(isFault && { fault: true }) };
};
const idOf = (line) => (isName(line.id) ? { id: line.id } : {});

// --- channels ---

const optional = (value, is) => value === undefined || value === null || is(value);
const isText = (value) => typeof value === "string";
const isFlag = (value) => typeof value === "boolean";
const isList = (is) => (value) => Array.isArray(value) && value.every(is);
const REQUEST = { agent: isName, deadline_ms: (value) => value > 0 && typeof value === "number", background: isFlag, traceparent: isText };
const LINES = {
  hello: { agent: isName, id: isName, profile: isText, token: isText, schemas: isText, updates: isFlag, answers: isList(isText), protocol: isList(Number.isInteger), capabilities: isList(isText) },
  tools: { agent: isName, id: isName, schemas: isText },
  ping: { id: isName },
  pong: {},
  bye: { agent: isName, id: isName },
  tool_cancel: { agent: isName },
  approve_resp: { agent: isName, reason: isText, remember: isFlag },
  ask_resp: { agent: isName },
};
const NEEDED = {
  tool_cancel: (line) => isName(line.id),
  approve_resp: (line) => isName(line.id) && isFlag(line.allow),
  ask_resp: (line) => isName(line.id),
};

class Channel {
  constructor(stream) {
    Object.assign(this, { stream, line: 0, pending: [], size: 0, named: new Map(), own: null, isOver: false });
    this.tokens = LIMITS.lines_per_s;
    this.refilled = performance.now();
    stream.on("data", (chunk) => this.receive(chunk));
    stream.on("end", () => this.end());
    stream.on("error", () => {});
    stream.on("close", () => this.vanish());
  }

  say(line) { if (!this.stream.destroyed && !this.isClosed) this.stream.write(JSON.stringify(line) + "\n"); }
  fail(found, line = {}) {
    const agent = isName(line.agent) ? { agent: line.agent } : {};
    this.say({ __port: "fault", ...found, line: this.line, ...idOf(line), ...agent });
  }

  /** One answer, in the form of its request. */
  answer(body, form, result) {
    const said = { id: body.id, ...outcome(result), ...(isName(body.agent) && { agent: body.agent }) };
    this.say(form === "short" ? said : form === "nested" ? { __port: "tool_resp", msg: said } : { __port: "tool_resp", ...said });
  }

  receive(chunk) {
    let begin = 0, at;
    while ((at = chunk.indexOf(10, begin)) >= 0) {
      this.keep(chunk.subarray(begin, at));
      this.take();
      begin = at + 1;
    }
    this.keep(chunk.subarray(begin));
  }

  /** Of a line that is too long its head alone is kept. */
  keep(part) {
    if (part.length === 0) return;
    if (this.size <= LIMITS.max_line_bytes) this.pending.push(part);
    this.size += part.length;
    if (this.size > LIMITS.max_line_bytes) this.pending = [Buffer.concat(this.pending).subarray(0, 4096)];
  }

  take() {
    const bytes = Buffer.concat(this.pending), size = this.size;
    this.pending = [];
    this.size = 0;
    this.line++;
    const now = performance.now();
    this.tokens = Math.min(LIMITS.lines_per_s, this.tokens + ((now - this.refilled) / 1000) * LIMITS.lines_per_s);
    this.refilled = now;
    const isOver = this.tokens < 1;
    // A line over the rate takes what there is.
    this.tokens = isOver ? 0 : this.tokens - 1;
    if (/^[ \t\r]*$/.test(bytes.toString("latin1"))) return;
    const limit = LIMITS.lines_per_s;
    const flooded = isOver ? fault("too_many", "too many lines", { what: "lines_per_s", limit }) : null;
    if (size > LIMITS.max_line_bytes) return this.refuse(bytes, flooded ?? fault("line_too_long", `a line is longer than ${LIMITS.max_line_bytes} bytes`));
    const line = read(bytes);
    if (line === null) return this.refuse(bytes, flooded ?? fault("malformed_line", "a line is no JSON object in UTF-8"));
    this.handle(line.value, line.text, flooded);
  }

  /** A line without a value: the answer of a request whose id can be read, else a fault. */
  refuse(bytes, found) {
    const { id, port, agent, form } = peek(bytes);
    const isRequest = isName(id) && (port === undefined || port === "tool_req");
    if (!isRequest) return this.fail(found, { agent, ...(ASKING.includes(port) && { id }) });
    this.refuseRequest({ id, agent }, form, found);
  }

  refuseRequest(body, form, found) {
    if (this.session(body.agent)?.calls.has(body.id)) return this.fail(fault("duplicate_id", "this id is in flight"), body);
    this.answer(body, form, found);
  }

  session(name) { return name === undefined || name === null ? this.own : this.named.get(name); }

  handle(line, text, flooded) {
    const port = line.__port;
    const invalid = (about = line) => this.fail(flooded ?? fault("invalid_request", "this is no line of an agent"), about);
    if (text.split('"__port"').length > 2) {
      const ports = new Set(members(text).filter(([name]) => name === "__port").map(([, value]) => value));
      if (ports.size > 1) return invalid();
    }
    if (port === undefined || port === "tool_req") return this.handleRequest(line, text, flooded);
    if (typeof port === "string" && port.includes("/")) return;
    const about = { agent: line.agent, ...(ASKING.includes(port) && { id: line.id }) };
    if (!(typeof port === "string" && Object.hasOwn(LINES, port))) return invalid({ agent: line.agent });
    const fields = Object.entries(LINES[port]);
    if (!fields.every(([name, is]) => optional(line[name], is)) || !(NEEDED[port]?.(line) ?? true)) return invalid(about);
    if (flooded && !ANSWERS.includes(port)) return port === "pong" ? undefined : this.fail(flooded, about);
    if (port === "ping") return this.pong(line, text);
    if (port === "hello") return this.hello(line);
    if (port === "pong") return;
    if (line.agent && !this.named.has(line.agent)) return this.fail(fault("unknown_agent", "no session is open for this agent"), about);
    if (port === "bye") return this.bye(line);
    const call = this.session(line.agent)?.calls.get(line.id);
    if (port === "tool_cancel" && call) this.session(line.agent).cancel(call);
    if (port === "tools") this.list(line);
  }

  pong(line, text) {
    const raw = members(text).filter(([name]) => name === "t").at(-1)?.[1];
    const said = JSON.stringify({ __port: "pong", ...idOf(line) });
    this.stream.write((raw === undefined ? said : `${said.slice(0, -1)},"t":${raw}}`) + "\n");
  }

  list(line) {
    if (optional(line.schemas, (form) => form === "plain")) {
      const session = line.agent ? this.named.get(line.agent) : this.openOwn();
      return session instanceof Session ? this.say({ __port: "tools", ...session.mine, tools: session.tools(), ...idOf(line) }) : this.fail(session, line);
    }
    this.fail(fault("invalid_request", "there is no such form"), line);
  }

  handleRequest(line, text, flooded) {
    const nested = isObject(line.msg) && line.__port === "tool_req";
    const form = line.__port === undefined ? "short" : nested ? "nested" : "full";
    const body = nested ? { ...line.msg } : line;
    const isSame = !nested || !line.agent || !body.agent || line.agent === body.agent;
    if (nested) body.agent ??= line.agent;
    const raw = nested ? members(members(text).find(([name]) => name === "msg")[1]) : members(text);
    const found = flooded ?? fault("invalid_request", "this is no request");
    if (!isName(body.id)) return this.fail(found, { agent: body.agent });
    const isRight = isSame && typeof body.name === "string" && Object.entries(REQUEST).every(([name, is]) => optional(body[name], is));
    if (!isRight || flooded) return this.refuseRequest(body, form, found);
    if (body.agent && !this.named.has(body.agent)) return this.answer(body, form, fault("unknown_agent", "no session is open for this agent"));
    const session = body.agent ? this.named.get(body.agent) : this.openOwn();
    if (!(session instanceof Session)) return this.answer(body, form, session);
    if (session.calls.has(body.id)) return this.fail(fault("duplicate_id", "this id is in flight"), body);
    session.request(body, form, raw.filter(([name]) => name === "input").at(-1)?.[1] ?? "");
  }

  /** The channel's own session, opened by this line if need be, or a fault. */
  openOwn() {
    const refusal = this.isOver ? fault("draining", "the session is over") : this.own ? null : this.noRoom();
    return refusal ?? (this.own ??= new Session(this, undefined, "default", {}));
  }

  noRoom() {
    const { sessions: limit } = LIMITS;
    return sessions >= limit ? fault("too_many", "too many sessions", { what: "sessions", limit }) : null;
  }

  hello(line) {
    const name = line.agent ?? undefined;
    const there = this.session(name);
    if (there?.isEnding || this.isEnding || (name === undefined && this.isOver)) return this.fail(fault("draining", "no session is opened any more"), line);
    if (there) return this.fail(fault("invalid_request", "this session is open"), line);
    if (!(line.protocol ?? [1]).includes(1)) return this.fail(fault("unsupported_version", "version 1 is spoken here", { supported: [1] }), line);
    if ((line.schemas ?? "plain") !== "plain" || "spec" in line) return this.fail(fault("invalid_request", "this is not offered"), line);
    const profile = line.profile ?? "default";
    const refusal = profile in FIXTURES.profiles ? this.noRoom() : fault("unknown_profile", "there is no such profile");
    if (refusal) {
      this.fail(refusal, line);
      return name === undefined && this.named.size === 0 ? this.close() : undefined;
    }
    const session = new Session(this, name, profile, line);
    if (name === undefined) this.own = session;
    else this.named.set(name, session);
    const capabilities = { agents: true, jobs: session.hasJobs, updates: session.updates, questions: false, forms: false, auth: false, limits: true, short: true, meta: false, value: false };
    const limits = { line: LIMITS.max_line_bytes, in_flight: LIMITS.in_flight, content: 67108864, depth: 128 };
    this.say({ __port: "ready", profile, protocol: 1, tools: session.tools(), warnings: [], capabilities, limits, ...session.mine, ...idOf(line) });
  }

  bye(line) {
    const session = this.session(line.agent);
    const isDone = this.isOver && !line.agent;
    if (!line.agent) this.isOver = true;
    if (session && !session.isEnding) session.end(line);
    else if (!session && !isDone) {
      this.say({ __port: "bye", ...idOf(line) });
      this.settle();
    }
  }

  // --- ends ---

  all() { return [...(this.own ? [this.own] : []), ...this.named.values()]; }

  end() {
    if (this.size > 0 && !(this.isOver && this.named.size === 0)) this.take();
    this.isEnding = this.isOver = true;
    for (const session of this.all()) if (!session.isEnding) session.end(null);
    this.settle();
  }

  settle() {
    const isOwnOver = !this.own || this.own.isOver;
    if (this.isOver && isOwnOver && this.named.size === 0) this.close();
  }

  close() {
    this.stream.end();
    this.isClosed = true;
  }

  /** Nobody is there any more: everything is cancelled. */
  vanish() {
    this.isClosed = true;
    for (const session of this.all()) {
      if (!session.isEnding) session.end(null);
      for (const call of [...session.calls.values()]) session.cancel(call);
    }
  }
}

net.createServer({ allowHalfOpen: true }, (stream) => new Channel(stream)).listen(process.argv[3]);
process.on("SIGTERM", () => process.exit(0));
