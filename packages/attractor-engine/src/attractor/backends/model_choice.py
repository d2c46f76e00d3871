"""Which model answers a stage (sections 2.6 and 8.5)."""

from unified_llm import Client, ConfigurationError, get_latest_model, get_model_info

from attractor.graph import Node
from attractor.state.context import Context


def choose_model(
    node: Node, context: Context, client: Client | None = None, *, model: str = "", provider: str = ""
) -> tuple[str, str]:
    """Model and provider: the node's, else the graph's, else those given.

    Without a model it is the newest of the provider that the catalog knows; without a provider the one that the catalog
    has the model under, if the client has it. An empty provider leaves the choice to the client. Raises
    ConfigurationError if no model can be found.
    """
    model = node.llm_model or context.get_string("graph.llm_model") or model
    provider = node.llm_provider or context.get_string("graph.llm_provider") or provider
    default = client.default_provider if client else None
    if not model:
        latest = get_latest_model(provider or default or "")
        if latest is None:
            raise ConfigurationError(
                f"stage {node.id!r} names no model, and none is known for provider {provider or default!r}; set "
                "llm_model on the node, in the model_stylesheet or on the graph, or give the backend a model"
            )
        return latest.id, provider or latest.provider
    known = None if provider else get_model_info(model)
    if known is not None and (client is None or known.provider in client.providers):
        provider = known.provider
    return model, provider
