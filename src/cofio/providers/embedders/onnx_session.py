"""ONNX sessions on the local CPU."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from cofio.errors import Misconfigured


def session(path: Path, threads: int) -> Any:
    """Return a session for the model file. Raise Misconfigured if the runtime is missing or cannot load the file."""
    os.putenv("ORT_DISABLE_TELEMETRY", "1")  # disables telemetry; read once, at import
    try:
        runtime = importlib.import_module("onnxruntime")  # 0.2 s and 40 MB: imported for the first text
    except ImportError as error:
        raise Misconfigured(f"onnxruntime cannot be imported: {error}.", "Run `pip install onnxruntime`.") from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads must not occupy a core
    raises = runtime.capi.onnxruntime_pybind11_state
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (raises.Fail, raises.InvalidGraph, raises.InvalidProtobuf, raises.NotImplemented) as error:
        hint = "Run `pip install --upgrade onnxruntime`."
        raise Misconfigured(f"onnxruntime {runtime.__version__} cannot load {path}: {error}.", hint) from error
