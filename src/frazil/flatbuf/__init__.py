"""FlatBuffers and FlexBuffers as numpy columns. Knows nothing of Icechunk."""
