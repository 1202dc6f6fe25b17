"""Private federated learning for text, on TensorFlow Federated."""

__version__ = '0.1.0'
