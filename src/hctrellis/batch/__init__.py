"""Inference on thousands to millions of small data sets at once.

`infer_many` takes a list of potentials or jets (`inputs`, `momenta`), cuts them into chunks
(`chunks`), has the chunks solved side by side (`engines`), keeps the answers in memory or in a
folder of Parquet files from which a killed run resumes (`store`), and returns a `BatchResult`.
"""

from hctrellis.batch.result import BatchResult
from hctrellis.batch.run import infer_many

__all__ = ["BatchResult", "infer_many"]
