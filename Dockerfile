# Two images from one file:
#   docker build --target nameserver -t tsnameserver .
#   docker build --target operator -t tsoperator .
# BASE is any image with Python 3.11 or newer and pip. Where the context has a folder wheels/, only it is installed from.
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY . /src
WORKDIR /src
RUN if [ -d wheels ]; then printf '[install]\nno-index = true\nfind-links = /src/wheels\n' > /etc/pip.conf; fi

FROM build AS nameserver-files
RUN python3 -m pip install --quiet --target /app ".[nameserver]"

FROM build AS operator-files
RUN python3 -m pip install --quiet --target /app ".[operator]"

FROM ${BASE} AS nameserver
LABEL org.opencontainers.image.title="tsnameserver" \
      org.opencontainers.image.description="Nameserver of tailnet names in a Kubernetes cluster" \
      org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=nameserver-files /app /app
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 1053/udp 1053/tcp 9002/tcp
ENTRYPOINT ["python3", "-m", "tsnameserver"]

FROM ${BASE} AS operator
LABEL org.opencontainers.image.title="tsoperator" \
      org.opencontainers.image.description="Kubernetes operator for tailnets" \
      org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=operator-files /app /app
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 9002/tcp
ENTRYPOINT ["python3", "-m", "tsoperator"]
