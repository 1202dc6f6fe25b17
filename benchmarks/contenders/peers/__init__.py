"""Contenders with environments of their own, without TensorFlow and our package."""
