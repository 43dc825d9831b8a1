# The daemon in an image: its virtual environment on a slim Python, as a user of its own, on a socket in a volume.
#
#   docker build -t tooldispatchd .
#   docker run --init -v ./config.toml:/etc/tooldispatchd/config.toml:ro -v tooldispatchd:/run/tooldispatchd tooldispatchd
#
# Agents are processes of the host or of other containers that have the volume and either the socket's owner or its
# group (--group-add 10001); without either the socket does not open for them.
#
# --init: the daemon reaps what it started, groups and all. What leaves its group and outlives its parent becomes a
# child of process 1; where that is the daemon, nobody reaps it, and its zombie stays until the container ends. The tiny
# init that the flag puts in front takes such orphans, and passes signals on. It works without, too.
#
# OAuth with a key (the grant private_key_jwt, tokens encrypted on disk) needs an extra: build with `--build-arg
# EXTRAS=oauth`; the audit in PostgreSQL needs EXTRAS=postgres. Tokens of people are kept under /var/lib/tooldispatchd;
# they outlive the container where that is a volume.
#
# What of bounds and sandboxes can be enforced in a container, it says itself: `docker run --rm tooldispatchd check
# --sandbox`. As containers commonly are they may make no namespaces, so that Landlock is the means and not bubblewrap, and
# have no cgroups to give out, so that `memory` is of each process. What is asked for and not there stops the start.
#
# The image holds Python and what the daemon needs. Tools that are other programs (node, git, …) want an image of yours
# that starts `FROM tooldispatchd`, or a BASE that has them.

# The Python that the lock was made for and the tests run on. Give a digest (name@sha256:…) for the same bytes each time.
ARG BASE=python:3.11-slim-bookworm

# --- what is installed, and a proof that the lock knows every file of it ---
FROM ${BASE} AS build
WORKDIR /build
COPY pyproject.toml requirements.lock ./
# Extras of the project, with spaces between them; the lock knows the files of all.
ARG EXTRAS=
# The lock holds the tests' tools too, so it constrains here what may be chosen, and its hashes are compared afterwards.
# Only wheels: nothing that has not been compared is run.
RUN sed -E -e '/^ +--hash=/d' -e 's/ \\$//' requirements.lock > constraints.txt \
 && python3 -c 'import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extras = [need for extra in sys.argv[1:] for need in project["optional-dependencies"][extra]]; \
print(*project["dependencies"], *extras, sep="\n")' $EXTRAS > runtime.txt \
 && python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
    > tools.txt \
 && for set in runtime tools; do \
      python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --only-binary=:all: \
        --constraint constraints.txt --requirement "$set.txt" --dest "$set" || exit 1; \
    done \
 && sha256sum runtime/* tools/* | while read -r hash file; do \
      grep -q -- "--hash=sha256:$hash" requirements.lock \
        || { echo "cannot install $file: its hash is not in requirements.lock" >&2; exit 1; }; \
    done
RUN python3 -m venv tools-venv \
 && tools-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps tools/*.whl
COPY README.md LICENSE ./
COPY tooldispatchd tooldispatchd
COPY protocol protocol
COPY share share
COPY systemd/user systemd/user
# The environment gets no pip: nothing is to be installed in the image that runs.
RUN tools-venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation \
      --wheel-dir runtime . \
 && python3 -m venv --without-pip /usr/local/lib/tooldispatchd \
 && tools-venv/bin/python -m pip --quiet --disable-pip-version-check --python /usr/local/lib/tooldispatchd/bin/python \
      install --no-index --no-deps runtime/*.whl \
 && tools-venv/bin/python -m pip --disable-pip-version-check --python /usr/local/lib/tooldispatchd/bin/python check

# --- what runs ---
FROM ${BASE}
# The number stands here so that volumes and agents can be given it. Its home is what tools may write to: package
# runners keep there what they install.
RUN groupadd --system --gid 10001 tooldispatchd \
 && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/tooldispatchd --shell /usr/sbin/nologin tooldispatchd \
 && install -d -m 0700 -o 10001 -g 10001 /var/lib/tooldispatchd \
 && install -d -m 0750 -o 10001 -g 10001 /run/tooldispatchd \
 && install -d -m 0755 /etc/tooldispatchd
COPY --from=build /usr/local/lib/tooldispatchd /usr/local/lib/tooldispatchd
ENV PATH=/usr/local/lib/tooldispatchd/bin:$PATH
ENV HOME=/var/lib/tooldispatchd
WORKDIR /var/lib/tooldispatchd
# A new volume takes over the directory's owner and mode.
VOLUME /run/tooldispatchd
USER 10001:10001
# It drains: let `docker stop -t` wait for longer than daemon.grace_s and 6 seconds, which with the defaults is 16.
STOPSIGNAL SIGTERM
# A ping is answered by the loop that dispatches, before any hello: it opens no session and starts no server.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
  CMD ["python3", "-I", "-c", "import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(4); s.connect('/run/tooldispatchd/dispatch.sock'); s.sendall(b'{\"__port\":\"ping\"}\\n'); sys.exit(b'\"pong\"' not in s.makefile('rb').readline())"]
ENTRYPOINT ["tooldispatchd"]
CMD ["serve", "--config", "/etc/tooldispatchd/config.toml", "--listen", "unix:/run/tooldispatchd/dispatch.sock"]
