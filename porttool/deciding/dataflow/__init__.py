"""Which expressions may hold a wrapped object, or an element of a container of them."""

from porttool.deciding.dataflow.flow import Flow, Holding, analyse

__all__ = ["Flow", "Holding", "analyse"]
