# An agent in jq, on its stdin and stdout: what became of each call goes to stderr.
#
#     socat EXEC:'jq --unbuffered -cnf client.jq' UNIX-CONNECT:PATH
#     tooldispatchd run -- sh -c 'exec jq --unbuffered -cnf client.jq <&5 >&4'
#
# It is one function from what is known and the next line to what is known then, with the lines to say in `out`. jq has
# no clock: a call is never made again, also where that may help.

def say($line): .lines += 1 | .out += [$line];

def call($name; $input):
  (.calls | length + 1 | tostring) as $id
  | .calls[$id] = {name: $name, at: (.lines + 1)}
  | say({__port: "tool_req", id: $id, name: $name, input: $input});

# A call has ended; $fault is null unless the daemon wrote the error.
def settle($id; $content; $fault):
  ("\(.calls[$id].name): \(if $fault then $fault.error else $content end)" | debug) as $_
  | .calls[$id] += {content: $content, fault: $fault, is_done: true};

def take($line):
  if $line.__port == "ping" then say({__port: "pong"} + ($line | with_entries(select(.key == "t"))))
  elif $line.__port == "tools" then ("tools: \([$line.tools[].name])" | debug) as $_ | .
  elif $line.__port == "tool_resp" and .calls[$line.id] then
    settle($line.id; $line.content; if $line.fault then $line.content | fromjson else null end)
  elif $line.__port == "fault" then
    ("fault: \($line.error): \($line.detail)" | debug) as $_
    # The line says which call it was where no id could be read.
    | [.calls | to_entries[] | select(.value.at == $line.line).key] as $ids
    | if $ids == [] then . else settle($ids[0]; $line.detail; $line) end
  else .is_over = $line.__port == "bye"
  end;

# What is said next, once everything that was asked is answered.
def go_on:
  if [.calls[].is_done] | all | not then .
  else
    .stage += 1
    | if .stage == 1 then say({__port: "tools"}) | call("echo"; "a")
      elif .stage == 2 then call("slow"; "b") | call("echo"; "c")
      elif .stage == 3 then call("fails"; {})
      elif .stage == 4 then
        (.calls | map_values(.content)) as {"1": $a, "2": $b, "3": $c}
        | call("report"; {a: $a, b: $b, c: $c, fails: .calls["4"].fault.category})
      elif .stage == 5 then say({__port: "bye"})
      else .
      end
  end;

label $bye
| foreach (null, inputs, "end") as $line (
  {lines: 0, calls: {}, stage: 0};
  .out = []
  | if $line == "end" then error("the channel ended too early")
    else (if $line == null then . else take($line) end) | go_on
    end;
  if .is_over then break $bye else .out[] end
)
