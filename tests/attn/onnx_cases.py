"""ONNX's published node cases. onnx makes them once in a process, when its
modules are first imported, so they are collected together here."""

import functools
import warnings


@functools.cache
def _every_case():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' cases, on import
        from onnx.backend.test.case.node import collect_testcases

        return tuple(collect_testcases())


def cases_of(operator):
    """The cases whose graph begins with this operator. Each comes a second
    time, expanded into other operators; those are left out."""
    graphs = ((case, case.model.graph.node) for case in _every_case())
    return [c for c, nodes in graphs if nodes[0].op_type == operator]
