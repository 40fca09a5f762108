"""What translates a request: model, memories, method and settings, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from nearmt.config.base import unknown_setting
from nearmt.datastore.filters import Filter
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError
from nearmt.methods import METHOD_CONFIGS
from nearmt.models import TranslationModel
from nearmt.serve.values import MemoryUse

#: Methods by which sentences share nothing.
METHODS = ("plain", "knn", "chunk")
#: Settings of these methods that a request cannot have.
_REFUSED = {
    **dict.fromkeys(("adaptive", "adaptive-boost"), "names a file of the server"),
    **dict.fromkeys(("scope", "retention", "duplicates", "recall", "varying-chunk"), "is for experiments only"),
}
#: Most beams and neighbours of a request.
MOST_BEAMS, _MOST_K, _MOST_SEEDS = 16, 64, 1024
_MOST_MEMORIES = _MOST_FILTERS = 16


@dataclass(frozen=True)
class System:
    """What translates: the same system has the same translator."""

    model: str
    memories: tuple[MemoryUse, ...] = ()
    filters: tuple[str, ...] = ()
    method: str = "plain"
    settings: tuple[tuple[str, Any], ...] = ()
    beam: BeamConfig = field(default_factory=BeamConfig)


def system_of(
    model: TranslationModel,
    memories: Sequence[MemoryUse],
    filter: Sequence[str] | str | None = None,
    method: str | None = None,
    settings: Mapping[str, Any] | None = None,
    beams: int | None = None,
) -> System:
    """The system of a request; what cannot be used as given is refused."""
    used = _used(memories)
    name = method or ("chunk" if used else "plain")
    if name not in METHODS:
        raise ConfigError(f"method = {name!r}: must be one of {', '.join(METHODS)}")
    if name != "plain" and not used:
        raise ConfigError(f"method '{name}' needs a memory")
    filters = _filters(filter)
    if filters and not used:
        raise ConfigError(f"filter = {filters[0]!r}: there is nothing to filter; name a memory")
    of_method, of_beam = _sorted_settings(name, {} if settings is None else settings, beams)
    beam = BeamConfig.from_mapping(of_beam)
    if name == "plain":
        return System(model.fingerprint + "-".join(model.language_pair), (), (), name, of_method, beam)
    return System(model.fingerprint + "-".join(model.language_pair), used, filters, name, of_method, beam)


def _used(memories: Sequence[MemoryUse]) -> tuple[MemoryUse, ...]:
    """Those with a weight above 0."""
    if len(memories) > _MOST_MEMORIES:
        raise ConfigError(f"{len(memories)} memories: at most {_MOST_MEMORIES} can be used together")
    seen: set[str] = set()
    for use in memories:
        if not (isfinite(use.weight) and use.weight >= 0):
            raise ConfigError(f"memory '{use.name}': weight {use.weight:g}: must be a number of at least 0")
        if use.name in seen:
            raise ConfigError(f"memory '{use.name}' is named twice; once is enough")
        seen.add(use.name)
    used = tuple(use for use in memories if use.weight > 0)
    if memories and not used:
        raise ConfigError(f"memory '{memories[0].name}': no memory has a weight above 0; leave the memories out")
    # The weight of a single memory changes nothing.
    return (MemoryUse(used[0].name),) if len(used) == 1 else used


def _filters(given: Sequence[str] | str | None) -> tuple[str, ...]:
    found = [given] if isinstance(given, str) else list(given or ())
    if len(found) > _MOST_FILTERS:
        raise ConfigError(f"{len(found)} filters: at most {_MOST_FILTERS} can be used together")
    return tuple(str(Filter.parse(text)) for text in found)


def _sorted_settings(
    method: str, settings: Mapping[str, Any], beams: int | None
) -> tuple[tuple[tuple[str, Any], ...], dict[str, Any]]:
    """The settings of the method in a fixed order, and those of the beam search."""
    of_beam: dict[str, Any] = {} if beams is None else {"beams": beams}
    of_method: dict[str, Any] = {}
    own, of_any = (
        METHOD_CONFIGS[method].public_fields(),
        {n for m in METHODS for n in METHOD_CONFIGS[m].public_fields()},
    )
    for name, value in settings.items():
        if name in _REFUSED:
            raise ConfigError(f"setting '{name}' {_REFUSED[name]}; a request cannot have it")
        if name in BeamConfig.public_fields():
            of_beam[name] = value
        elif name in own:
            of_method[name] = value
        elif name in of_any:
            raise ConfigError(f"method '{method}' has no setting '{name}'")
        else:
            raise ConfigError(unknown_setting(name[:100], {*BeamConfig.public_fields(), *of_any} - set(_REFUSED)))
    METHOD_CONFIGS[method].from_mapping(of_method)
    BeamConfig.from_mapping(of_beam)
    _check_most("beams", of_beam.get("beams"), MOST_BEAMS)
    _check_most("k", of_method.get("k"), _MOST_K)
    _check_most("cache-k", of_method.get("cache-k"), 2 * _MOST_K)
    _check_most("seeds", of_method.get("seeds"), _MOST_SEEDS)
    return tuple(sorted(of_method.items())), of_beam


def _check_most(name: str, value: int | None, most: int) -> None:
    if value is not None and value > most:
        raise ConfigError(f"{name} = {value}: a request can have at most {most}")
