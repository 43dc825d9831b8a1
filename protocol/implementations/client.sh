#!/bin/sh
# An agent in POSIX sh. A shell opens no Unix socket: its channel is its stdin and stdout, and what became of each call goes to stderr.
#
#     socat EXEC:'sh client.sh' UNIX-CONNECT:PATH
#     tooldispatchd run -- sh -c 'exec sh client.sh <&5 >&4'
#
# It has no parser of JSON. A member is found by its name between quotes and a colon, which stand so in no string of JSON. Strings stay as they
# are written, with their escapes, and so go back into JSON unchanged.
set -u
lines=0 ids=0

say() { printf '%s\n' "$1" && lines=$((lines + 1)); }

# member NAME JSON: the first member of that name, in $value: the inside of a string, or else the text up to a comma or brace; empty if there is none.
member() {
    value=
    case $2 in *"\"$1\":"*) rest=${2#*"\"$1\":"} ;; *) return ;; esac
    rest=${rest# }
    case $rest in \"*) rest=${rest#?} ;; *) value=${rest%%[,\}]*} && return ;; esac
    while :; do
        piece=${rest%%\"*} rest=${rest#*\"}
        value=$value$piece
        backslashes=${piece##*[!\\]}
        # After an odd number of backslashes the quote is part of the string.
        if [ $((${#backslashes} % 2)) = 0 ]; then return; fi
        value=$value\"
    done
}

# keep ID: the line is the outcome of that call. Our ids are numbers; any other is nobody's.
keep() { case $1 in '' | *[!0-9]*) ;; *) eval "answer_$1=\$line" ;; esac; }

# take PORT: the next line, in $line, which is to be of that port. Pings are answered, and outcomes are kept in answer_ID.
take() {
    while IFS= read -r line; do
        member __port "$line"
        port=$value
        case $port in
            ping) case $line in *'"t":'*) say '{"__port":"pong","t":'"${line#*'"t":'}" ;; *) say '{"__port":"pong"}' ;; esac ;;
            tool_resp)
                member id "$line"
                keep "$value"
                ;;
            fault)
                printf '%s\n' "$line" >&2
                # Where no id could be read, the number of the line says which call it was.
                member line "$line"
                eval "keep \"\${call_at_$((value)):-}\""
                ;;
        esac
        if [ "$port" = "$1" ] || [ "$port" = fault ]; then return; fi
    done
    echo 'the channel ended too early' >&2
    exit 1
}

# begin TOOL JSON: make a call; its id, in $ids.
begin() {
    ids=$((ids + 1))
    eval "name_$ids=\$1 input_$ids=\$2 call_at_$((lines + 1))=$ids answer_$ids="
    say '{"__port":"tool_req","id":"'"$ids"'","name":"'"$1"'","input":'"$2"'}'
}

# finish ID: await the outcome, in $content, and the $category of a fault. After a failure that may pass the call is made again, twice.
finish() {
    call=$1
    for pause_s in 1 2 ''; do
        while eval "answer=\$answer_$call name=\$name_$call input=\$input_$call" && [ -z "$answer" ]; do take tool_resp; done
        member content "$answer"
        content=$value fault=
        case $answer in *'"fault": true'* | *'"fault":true'*) fault=$(printf '%s\n' "$content" | sed 's/\\\(["\\]\)/\1/g') ;; esac
        case $answer in *'"__port":"fault"'* | *'"__port": "fault"'*) fault=$answer ;; esac
        member ran "$fault"
        ran=$value
        member category "$fault"
        category=$value
        member error "$fault"
        code=$value
        case $ran$code in maybe*) break ;; *server_unavailable | *queue_full | *rate_limited | *too_many | *draining) ;; *) break ;; esac
        if [ -z "$pause_s" ]; then break; fi
        member retry_after_ms "$fault"
        sleep "$((value > 0 ? (value + 999) / 1000 : pause_s))"
        begin "$name" "$input"
        call=$ids
    done
    printf '%s\n' "$name: ${code:-$content}" >&2
}

say '{"__port":"tools"}'
take tools
printf '%s\n' "$line" >&2
begin echo '"a"'
finish "$ids"
a=$content
begin slow '"b"'
slow=$ids
begin echo '"c"'
finish "$ids"
c=$content
finish "$slow"
b=$content
begin fails '{}'
finish "$ids"
begin report '{"a":"'"$a"'","b":"'"$b"'","c":"'"$c"'","fails":"'"$category"'"}'
finish "$ids"
say '{"__port":"bye"}'
take bye
