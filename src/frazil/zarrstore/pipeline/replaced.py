"""The codec pipeline that was configured before frazil's."""

from zarr.abc.codec import CodecPipeline
from zarr.core.codec_pipeline import BatchedCodecPipeline


class Replaced:
    """Serves the stores that are not frazil's."""

    def __init__(self) -> None:
        self.pipeline: type[CodecPipeline] = BatchedCodecPipeline


replaced = Replaced()
