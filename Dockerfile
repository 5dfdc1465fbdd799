# Three images from one file:
#   docker build --target nameserver -t tsnameserver .
#   docker build --target operator -t tsoperator .
#   docker build --target dnsload -t dnsload .
# BASE is any image with Python 3.11 or newer and pip. Where the context has a folder wheels/, only it is installed from.
ARG BASE=docker.io/library/python:3.13-slim
ARG VERSION=0.1.0

# What a program depends on, one file each, so that a change of the sources alone installs nothing again.
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml wheel[s] wheels/
RUN if ls wheels/*.whl > /dev/null 2>&1; then printf '[install]\nno-index = true\nfind-links = /src/wheels\n' > /etc/pip.conf; fi
RUN python3 -c 'import pathlib, tomllib; \
    extras = tomllib.loads(pathlib.Path("wheels/pyproject.toml").read_text())["project"]["optional-dependencies"]; \
    [pathlib.Path(f"{name}.txt").write_text("\n".join(needed)) for name, needed in extras.items()]'

FROM build AS nameserver-dependencies
RUN python3 -m pip install --quiet --no-compile --target /app --requirement nameserver.txt \
    && python3 -m compileall -q -o 2 --invalidation-mode unchecked-hash /app

# The nameserver's compiled UDP loop and dnsload's compiled client. This stage alone has a compiler; where none is to be
# had, both are Python's.
FROM ${BASE} AS compiled
# hadolint ignore=DL3008
RUN python3 -c 'import pathlib, sysconfig; \
    print("" if pathlib.Path(sysconfig.get_path("include"), "Python.h").exists() else "python3-dev")' > /lacking \
    && { apt-get update -qq && xargs apt-get install -qq --no-install-recommends gcc libc6-dev < /lacking; } \
    || echo "there is no compiler to be had"
WORKDIR /src
COPY nameserver/udploop nameserver/udploop
RUN mkdir /built && { python3 nameserver/udploop/hatch_build.py /built || true; }
COPY loadtest/dnsload/cclient cclient
RUN mkdir /client && { cc -std=gnu11 -O2 -o /client/client cclient/*.c -lm || true; }

# The operator speaks raw JSON: it needs none of the models and API classes of kubernetes, three quarters of all there is
# here. That package loads each only when it is named, and a test watches that none is.
FROM build AS operator-dependencies
RUN python3 -m pip install --quiet --no-compile --target /app --requirement operator.txt \
    && find /app/kubernetes -regex '.*/client/\(api\|models\)/[a-z].*[.]py' -delete \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /app

FROM build AS dnsload-dependencies
RUN python3 -m pip install --quiet --target /app --requirement loadtest.txt

# The programs, compiled: the images' file systems are read-only. The nameserver runs without docstrings (-OO): 2 MB less.
FROM build AS programs
COPY nameserver/tsnameserver /nameserver/tsnameserver
COPY operator/tsoperator /operator/tsoperator
COPY loadtest/dnsload /loadtest/dnsload
RUN python3 -m compileall -q -o 0 -o 2 --invalidation-mode unchecked-hash /nameserver /operator /loadtest

FROM ${BASE} AS nameserver
ARG VERSION
LABEL org.opencontainers.image.title="tsnameserver" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.description="Nameserver of tailnet names in a Kubernetes cluster" \
      org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=nameserver-dependencies /app /app
COPY --from=programs /nameserver /app
COPY --from=compiled /built /app/tsnameserver
ENV PYTHONPATH=/app PYTHONOPTIMIZE=2 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 1053/udp 1053/tcp 9002/tcp 9153/tcp
ENTRYPOINT ["python3", "-m", "tsnameserver"]

FROM ${BASE} AS dnsload
ARG VERSION
LABEL org.opencontainers.image.title="dnsload" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.description="Load generator for DNS servers" \
      org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=dnsload-dependencies /app /app
COPY --from=programs /nameserver /loadtest /app/
COPY --from=compiled /client /app/dnsload/cclient
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=/tmp
USER 65532:65532
ENTRYPOINT ["python3", "-m", "dnsload"]

FROM ${BASE} AS operator
ARG VERSION
LABEL org.opencontainers.image.title="tsoperator" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.description="Kubernetes operator for tailnets" \
      org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=operator-dependencies /app /app
COPY --from=programs /nameserver /operator /app/
# kubernetes wants a home folder as it is imported, and this user has none of its own.
ENV HOME=/ PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 9002/tcp
ENTRYPOINT ["python3", "-m", "tsoperator"]
