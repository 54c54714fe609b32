# The runner in a container: slim, not root, every dependency checked against its hash.
#
#   docker build -t autopilot .
#   docker run --rm --init -e ANTHROPIC_API_KEY \
#       -v "$PWD:/workspace" -v autopilot-home:/autopilot autopilot run task.yaml
#
# It needs no other writable place: add `--read-only --tmpfs /tmp`, and any `--user`.

ARG PYTHON=3.12-slim-bookworm

# --- build: the virtual environment that the image is made of ---------------------------------

FROM python:${PYTHON} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ONLY_BINARY=:all: \
    PIP_REQUIRE_HASHES=1

WORKDIR /src

# Dependencies first: this layer stays cached until a lock file changes. The locks are complete, so
# nothing is resolved: a resolver trips over releases that are newer than the lock.
COPY requirements.txt requirements-build.txt ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-deps -r requirements-build.txt \
    && python -m venv --without-pip /opt/autopilot \
    && /opt/build/bin/pip --python /opt/autopilot/bin/python install --no-deps -r requirements.txt

# Then the runner itself. The wheel was made on the line before, so it has no hash to check.
COPY pyproject.toml README.md LICENSE ./
COPY configs configs
COPY runner runner
RUN /opt/build/bin/python -m hatchling build -t wheel -d /dist \
    && PIP_REQUIRE_HASHES=0 /opt/build/bin/pip --python /opt/autopilot/bin/python \
        install --no-deps --no-index /dist/*.whl

# --- run ---------------------------------------------------------------------------------------

FROM python:${PYTHON}

LABEL org.opencontainers.image.title="autopilot-runner" \
      org.opencontainers.image.description="Headless autopilot runner for CI" \
      org.opencontainers.image.licenses="Apache-2.0"

# Versions come with the base image's Debian release; pinning them breaks the build at the next
# security update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git ripgrep tini \
    && rm -rf /var/lib/apt/lists/* \
    # A mounted workspace belongs to somebody else, and git would refuse to work in it.
    && git config --system --add safe.directory /workspace \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin autopilot \
    # Sessions go here. Like /tmp it is open to any --user; what the runner writes is mode 0600.
    && install -d -m 1777 /autopilot \
    && install -d -o autopilot -g autopilot /workspace \
    # Only the command goes on PATH: the Python that tools find there is the system's, not ours.
    && ln -s /opt/autopilot/bin/autopilot /usr/local/bin/autopilot

COPY --from=build /opt/autopilot /opt/autopilot

# HOME may be unwritable: the runner writes to AUTOPILOT_HOME and nowhere else.
ENV AUTOPILOT_HOME=/autopilot \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

USER 10001:10001
WORKDIR /workspace
VOLUME /autopilot

# The runner can be process 1: it handles the signals and reaps what its tools leave behind. Until
# its handlers stand (its first moments) the kernel ignores SIGTERM to a process 1; to close that
# gap run it below an init: `docker run --init`, or tini, which is in the image for places without
# that flag (`--entrypoint tini IMAGE -- autopilot run ...`, or a pod's `command`).
ENTRYPOINT ["autopilot"]
