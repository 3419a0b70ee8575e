"""Runs for other tools: Perfetto, vLLM's benchmark files, tables, and the workload itself."""

from experiments.exports.bench import bench_result
from experiments.exports.errors import ExportError
from experiments.exports.frames import tables
from experiments.exports.perfetto import perfetto_json
from experiments.exports.workload import workload_of
from experiments.exports.writing import FORMATS, export

__all__ = ["FORMATS", "ExportError", "bench_result", "export", "perfetto_json", "tables", "workload_of"]
