//! An agent in Rust, with the standard library alone: `rustc client.rs`, then TOOLDISPATCHD_SOCKET=PATH ./client, or ./client PATH.
//! It lists the tools, makes the calls that the conformance runner asks of an agent, and prints what became of each.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The codes whose retry is "later"; a call that failed with any other is not repeated.
const LATER: [&str; 5] = ["server_unavailable", "queue_full", "rate_limited", "too_many", "draining"];

// --- JSON: a value stays the text that it was written as, until somebody wants more of it ---

/// The first value of a text, and what stands behind it.
fn split_value(json: &str) -> (&str, &str) {
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b',' | b':' | b'}' | b']' if depth == 0 => return (json[..at].trim(), &json[at..]),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    (json.trim(), "")
}

/// The members of an object, or the items of a list under their numbers.
fn members(json: &str) -> HashMap<String, &str> {
    let mut found = HashMap::new();
    let mut rest = json.trim().get(1..).unwrap_or("");
    while !rest.trim_start().starts_with(['}', ']']) && !rest.is_empty() {
        let (mut value, mut behind) = split_value(rest);
        let mut name = found.len().to_string();
        if let Some(after) = behind.strip_prefix(':') {
            name = text(value);
            (value, behind) = split_value(after);
        }
        found.insert(name, value);
        rest = behind.strip_prefix(',').unwrap_or(behind);
    }
    found
}

/// What a string says, or a number.
fn text(json: &str) -> String {
    let mut units = Vec::new();
    let inside = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut rest = inside.unwrap_or(json).chars();
    while let Some(letter) = rest.next() {
        let said = match (letter, if letter == '\\' { rest.next() } else { None }) {
            (_, Some('u')) => {
                let digits: String = rest.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
                continue;
            }
            (_, Some('n')) => '\n',
            (_, Some('r')) => '\r',
            (_, Some('t')) => '\t',
            (_, Some('b')) => '\u{8}',
            (_, Some('f')) => '\u{c}',
            (plain, escaped) => escaped.unwrap_or(plain),
        };
        units.extend_from_slice(said.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16_lossy(&units)
}

fn quoted(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        '\0'..='\u{1f}' => format!("\\u{:04x}", letter as u32),
        _ => letter.to_string(),
    });
    format!("\"{}\"", letters.collect::<String>())
}

// --- the agent ---

/// A call. `content` and `fault`, its members, are there when its outcome is.
#[derive(Default)]
struct Call {
    name: String,
    input: String,
    line: u64,
    tries: u32,
    due: Option<Instant>,
    content: Option<String>,
    fault: HashMap<String, String>,
}

struct Agent {
    requests: UnixStream,
    answers: BufReader<UnixStream>,
    heard: Vec<u8>,
    lines: u64,
    calls: Vec<Call>,
}

impl Agent {
    fn say(&mut self, line: &str) -> Result<()> {
        self.lines += 1;
        self.requests.write_all(format!("{line}\n").as_bytes())
    }

    /// Make a call; its id is its place in `calls`.
    fn call(&mut self, name: &str, input: &str) -> Result<usize> {
        self.calls.push(Call { name: name.into(), input: input.into(), ..Call::default() });
        self.request(self.calls.len() - 1)
    }

    fn request(&mut self, id: usize) -> Result<usize> {
        let call = &mut self.calls[id];
        (call.line, call.tries, call.due) = (self.lines + 1, call.tries + 1, None);
        let line = format!(r#"{{"__port":"tool_req","id":"{id}","name":{},"input":{}}}"#, quoted(&call.name), call.input);
        self.say(&line)?;
        Ok(id)
    }

    /// Keep the outcome of a call, or, after a failure that may pass, the time at which it is made again.
    fn settle(call: &mut Call, content: String, fault: &str) {
        call.fault = members(fault).iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let has = |name: &str, wanted: &[&str]| call.fault.get(name).is_some_and(|said| wanted.contains(&said.as_str()));
        if has("error", &LATER) && !has("ran", &["maybe"]) && call.tries < 3 {
            let pause_ms = call.fault.get("retry_after_ms").and_then(|said| said.parse().ok()).unwrap_or(1000.0);
            call.due = Some(Instant::now() + Duration::from_secs_f64(pause_ms / 1000.0));
        } else {
            println!("{}: {}", call.name, call.fault.get("error").unwrap_or(&content));
            call.content = Some(content);
        }
    }

    /// The port of the next line, or an empty one where none came before a call had to be made again.
    fn step(&mut self) -> Result<String> {
        let next = (0..self.calls.len()).filter(|&id| self.calls[id].due.is_some()).min_by_key(|&id| self.calls[id].due);
        let pause = next.and_then(|id| self.calls[id].due).map(|due| due.saturating_duration_since(Instant::now()));
        self.requests.set_read_timeout(pause.map(|pause| pause.max(Duration::from_millis(1))))?;
        match self.answers.read_until(b'\n', &mut self.heard) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                next.map_or(Ok(0), |id| self.request(id))?;
                return Ok(String::new());
            }
            Err(error) => return Err(error),
            Ok(_) if !self.heard.ends_with(b"\n") => return Err(Error::new(ErrorKind::UnexpectedEof, "the channel ended too early")),
            Ok(_) => {}
        }
        let raw = String::from_utf8(std::mem::take(&mut self.heard)).map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        let line = members(&raw);
        let said = |name: &str| line.get(name).map_or(String::new(), |value| text(value));
        match said("__port").as_str() {
            "ping" => self.say(&line.get("t").map_or(r#"{"__port":"pong"}"#.into(), |t| format!(r#"{{"__port":"pong","t":{t}}}"#)))?,
            "tool_resp" => {
                if let Some(call) = said("id").parse().ok().and_then(|id: usize| self.calls.get_mut(id)) {
                    let content = said("content");
                    let fault = if line.contains_key("fault") { content.clone() } else { String::new() };
                    Agent::settle(call, content, &fault);
                }
            }
            "fault" => {
                println!("fault: {}: {}", said("error"), said("detail"));
                // Where no id could be read, the number of the line says which call it was.
                if let Some(call) = self.calls.iter_mut().find(|call| call.line.to_string() == said("line")) {
                    Agent::settle(call, said("detail"), &raw);
                }
            }
            "tools" => {
                let mut names: Vec<_> = members(line["tools"]).values().map(|tool| text(members(tool)["name"])).collect();
                names.sort();
                println!("tools: {}", names.join(" "));
            }
            _ => {}
        }
        Ok(said("__port"))
    }

    fn outcome(&mut self, id: usize) -> Result<String> {
        while self.calls[id].content.is_none() {
            self.step()?;
        }
        Ok(quoted(self.calls[id].content.as_deref().unwrap_or("")))
    }
}

fn main() -> Result<()> {
    let path = std::env::var("TOOLDISPATCHD_SOCKET").ok().or(std::env::args().nth(1));
    let requests = UnixStream::connect(path.ok_or(Error::new(ErrorKind::InvalidInput, "usage: client PATH"))?)?;
    let answers = BufReader::new(requests.try_clone()?);
    let mut agent = Agent { requests, answers, heard: Vec::new(), lines: 0, calls: Vec::new() };
    agent.say(r#"{"__port":"tools"}"#)?;
    let first = agent.call("echo", r#""a""#)?;
    let a = agent.outcome(first)?;
    let (second, third) = (agent.call("slow", r#""b""#)?, agent.call("echo", r#""c""#)?);
    let (b, c) = (agent.outcome(second)?, agent.outcome(third)?);
    let fourth = agent.call("fails", "{}")?;
    agent.outcome(fourth)?;
    let category = quoted(agent.calls[fourth].fault.get("category").map_or("", String::as_str));
    let report = agent.call("report", &format!(r#"{{"a":{a},"b":{b},"c":{c},"fails":{category}}}"#))?;
    agent.outcome(report)?;
    agent.say(r#"{"__port":"bye"}"#)?;
    while agent.step()? != "bye" {}
    Ok(())
}
