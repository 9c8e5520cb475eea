"""ONNX's published node cases."""

import importlib
import warnings
from unittest import mock

import numpy as np
import onnx
import torch


def cases_of(operator):
    """The cases whose graph begins with this operator. Each comes a second
    time, expanded into other operators; those are left out.

    A module makes its cases when it is imported, with a seed of its own.
    ONNX imports the modules of all operators, which takes seconds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        importlib.import_module(f"{node.__name__}.{operator.lower()}")
        with mock.patch.object(node, "import_recursive"):
            made = node.collect_testcases()
    graphs = ((case, case.model.graph.node) for case in made)
    return [c for c, nodes in graphs if nodes[0].op_type == operator]


def tensor(array):
    if array.dtype.name == "bfloat16":  # NumPy has none: exact in float32
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(array))


def unpacked(case):
    """Return the node's arrays by name, its attributes, its outputs."""
    (node,) = case.model.graph.node
    ((arrays, expected),) = case.data_sets
    inputs = dict(zip(filter(None, node.input), arrays, strict=True))
    outputs = dict(zip(filter(None, node.output), expected, strict=True))
    attributes = {
        a.name: onnx.helper.get_attribute_value(a) for a in node.attribute
    }
    return inputs, attributes, outputs
