"""The one description of a study's configuration.

:class:`Study` is closed at every level: an unknown key, a wrong type or a value out of bounds is
an :class:`~flatscore.errors.InputError` that names the key, the value and the nearest valid one.
The JSON schema in ``workflow/schemas`` and the option table in ``config/README.md`` are printed
from it (``python -m flatscore.config schema|table``); a test holds them together.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as validator
from rapidfuzz import process

from flatscore.errors import InputError

FULL_PRECISION = "bf16"

Precision = Literal["bf16", "bnb-nf4", "gptq-int4", "autogptq-int4"]
Domain = Literal["retail", "telecom"]
Repair = Literal["none", "reflexive"]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Budget = Annotated[int, Field(ge=1)]


class Closed(BaseModel):
    """A level of the configuration: unknown keys are errors, values are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Model(Closed):
    """Where a model's full-precision weights come from: exactly one source."""

    embedded: str | None = Field(None, description="name of an agent shipped in resources/embedded")
    path: str | None = Field(None, description="folder of safetensors on this machine")
    hub: str | None = Field(None, description="hub id; its `revision` must be a commit")
    revision: str | None = Field(None, description="commit of the hub id, 40 hex digits")
    recorded: dict[Domain, dict[Slug, str]] | None = Field(
        None, description="result files instead of weights: domain, then precision, then file"
    )
    trust_remote_code: bool = Field(False, description="run code that comes with the weights")

    @validator(mode="after")
    def _one_source(self) -> Self:
        sources = (self.embedded, self.path, self.hub, self.recorded)
        if sum(source is not None for source in sources) != 1:
            raise ValueError("give exactly one of embedded, path, hub, recorded")
        for domain, files in (self.recorded or {}).items():
            if FULL_PRECISION not in files or len(files) < 2:
                raise ValueError(
                    f"recorded.{domain} needs a file for {FULL_PRECISION} and one for a precision "
                    f"to compare with it, has {list(files)}"
                )
        if (self.hub is None) != (self.revision is None):
            raise ValueError("hub and revision belong together: pin the commit of a hub id")
        if self.revision is not None and not re.fullmatch("[0-9a-f]{40}", self.revision):
            raise ValueError(f"revision is {self.revision!r}, not a commit of 40 hex digits")
        return self

    @property
    def source(self) -> dict[str, str]:
        """The given source keys and their values."""
        return self.model_dump(include={"embedded", "path", "hub", "revision"}, exclude_none=True)


class User(Closed):
    """The simulated user."""

    kind: Literal["scripted", "llm"] = Field(
        "scripted", description="scripted (telecom only) or τ²-bench's LLM user simulator"
    )
    model: str | None = Field(None, description="litellm name of the user's model (kind llm)")
    base_url: str | None = Field(None, description="OpenAI-compatible endpoint (kind llm)")
    temperature: float = Field(0.7, ge=0, le=2, description="sampling temperature (kind llm)")

    @validator(mode="after")
    def _llm_has_a_model(self) -> Self:
        if (self.kind == "llm") != (self.model is not None):
            raise ValueError("kind llm needs `model`, and only kind llm takes it")
        return self


class Episodes(Closed):
    """How τ²-bench episodes are run. Everything here is common to all arms of the study."""

    split: str = Field("base", description="τ²-bench task split")
    tasks: int | None = Field(None, ge=1, description="only that many tasks, evenly spaced")
    trials: int = Field(2, ge=1, description="episodes of a task in each arm (the paper: 4)")
    budgets: list[Budget] = Field(
        [10, 2], min_length=1, description="live error budgets, τ²-bench's max_errors"
    )
    repairs: list[Repair] = Field(["none", "reflexive"], min_length=1, description="repair arms")
    max_steps: int = Field(200, ge=1, description="τ²-bench's limit on steps of an episode")
    temperature: float = Field(0.0, ge=0, le=2, description="the agent's; 0 is greedy")
    max_new_tokens: int = Field(128, ge=1, description="limit on one reply of the agent")
    max_context: int = Field(2048, ge=64, description="limit on the agent's prompt and reply")
    slots: int = Field(64, ge=1, description="episodes in flight in the in-process engine")
    engine: Literal["transformers", "vllm"] = Field(
        "transformers", description="what computes the agent's replies"
    )

    @validator(mode="after")
    def _distinct(self) -> Self:
        for key in ("budgets", "repairs"):
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"{key} has a value twice: {values}")
        if "none" not in self.repairs:
            raise ValueError("repairs must hold none: repair is compared with it")
        return self


class ReflexiveRepair(Closed):
    """The repair prompt: a rejected call is shown with the tool list, and asked for again."""

    attempts: int = Field(3, ge=1, le=10, description="rejections before a call goes through")
    reject: Literal["unknown-tool", "failed-call"] = Field(
        "unknown-tool", description="calls to tools not on the list, or every call that would fail"
    )


class BnbNf4(Closed):
    """bitsandbytes NF4."""

    double_quant: bool = Field(True, description="quantize the block scales as well")


class GptqInt4(Closed):
    """GPTQ at 4 bits, by gptqmodel or auto-gptq."""

    group_size: int = Field(64, ge=16, description="weights that share a scale")
    desc_act: bool = Field(False, description="quantize columns in order of activation size")
    conversations: int = Field(128, ge=1, description="calibration conversations")


class Quantize(Closed):
    """Settings of each quantizer; a precision's name is its quantizer's."""

    bnb_nf4: BnbNf4 = Field(BnbNf4(), alias="bnb-nf4", description="settings of bnb-nf4")
    gptq_int4: GptqInt4 = Field(GptqInt4(), alias="gptq-int4", description="of gptq-int4")
    autogptq_int4: GptqInt4 = Field(
        GptqInt4(), alias="autogptq-int4", description="of autogptq-int4"
    )
    min_agreement: float = Field(
        0.9, ge=0, le=1, description="reload check: smallest share of equal next tokens"
    )
    max_perplexity_ratio: float = Field(
        1.1, ge=1, description="reload check: largest perplexity over the original's"
    )

    def settings(self, precision: str) -> dict[str, Any]:
        """The settings of one quantizer as plain values."""
        value: BaseModel = getattr(self, precision.replace("-", "_"))
        return value.model_dump()


class Statistics(Closed):
    """The analysis. Nothing here changes an episode."""

    resamples: int = Field(5000, ge=200, description="task-level bootstrap resamples")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="level of the intervals")
    margin: float = Field(0.075, gt=0, lt=1, description="equivalence margin of the score")
    k: int = Field(2, ge=0, description="pre-specified K of the gap widening")


class Tracking(Closed):
    """MLflow."""

    uri: str = Field("sqlite:///results/mlflow/mlflow.db", description="tracking URI")
    experiment: str = Field("flatscore", min_length=1, description="experiment's name")


class Study(Closed):
    """A study: models x precisions x domains x repairs x budgets, and its analysis."""

    study: Slug = Field(description="name of the study, its folder in results/")
    seed: int = Field(ge=0, description="seed of every random draw")
    models: dict[Slug, Model] = Field(min_length=1, description="agents by name")
    precisions: list[Precision] = Field(min_length=1, description="bf16 and its quantizations")
    domains: list[Domain] = Field(["telecom"], min_length=1, description="τ²-bench domains")
    episodes: Episodes = Field(Episodes(), description="how episodes are run")
    user: User = Field(User(), description="the simulated user")
    repair: ReflexiveRepair = Field(ReflexiveRepair(), description="the reflexive repair")
    quantize: Quantize = Field(Quantize(), description="the quantizers")
    statistics: Statistics = Field(Statistics(), description="the analysis")
    tracking: Tracking = Field(Tracking(), description="the MLflow log")

    @validator(mode="after")
    def _consistent(self) -> Self:
        for key in ("precisions", "domains"):
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"{key} has a value twice: {values}")
        if self.precisions[0] != FULL_PRECISION:
            raise ValueError(f"precisions must start with {FULL_PRECISION}, the baseline")
        run = any(model.recorded is None for model in self.models.values())
        if run and self.user.kind == "scripted" and "retail" in self.domains:
            raise ValueError(
                "the scripted user plays telecom only; for retail set user.kind to llm"
            )
        return self


def load(raw: Mapping[str, Any], *, place: str = "config") -> Study:
    """Check a configuration as read from YAML.

    Parameters
    ----------
    raw
        The mapping, e.g. Snakemake's ``config``.
    place
        What the message calls the source, usually the file.

    Raises
    ------
    InputError
        With one line for each fault: key, value, what is valid and the nearest valid name.
    """
    try:
        return Study.model_validate(dict(raw))
    except ValidationError as error:
        faults = [_describe(fault) for fault in error.errors()]
        raise InputError(
            place, "; ".join(faults) + ".", "Correct it; config/README.md lists every key."
        ) from None


def cells(study: Study) -> list[tuple[str, str, str]]:
    """Every (model, precision, domain) of the study, in the order of the config."""
    found: list[tuple[str, str, str]] = []
    for name, model in study.models.items():
        if model.recorded is None:
            found += [(name, p, d) for d in study.domains for p in study.precisions]
        else:
            found += [(name, p, d) for d, files in model.recorded.items() for p in files]
    return found


def _describe(fault: Mapping[str, Any]) -> str:
    """One sentence for one pydantic fault."""
    key = ".".join(str(part) for part in fault["loc"] if part != "[key]") or "the configuration"
    kind, value = fault["type"], fault["input"]
    if kind == "extra_forbidden":
        return f"unknown key {key}{_nearest(str(fault['loc'][-1]), _keys_beside(fault['loc']))}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "literal_error":
        valid = re.findall("'([^']*)'", fault["ctx"]["expected"])
        return f"{key} is {value!r}{_nearest(str(value), valid)}; valid are {', '.join(valid)}"
    if kind == "value_error":
        return f"{key}: {fault['ctx']['error']}"
    message = fault["msg"][0].lower() + fault["msg"][1:]
    shown = repr(value) if len(repr(value)) < 80 else repr(value)[:77] + "..."
    return f"{key} is {shown}: {message}"


def _keys_beside(location: tuple[Any, ...]) -> list[str]:
    """The valid keys at the level where an unknown one was found."""
    level: type[BaseModel] = Study
    for part in location[:-1]:
        for name, field in level.model_fields.items():
            if part in (name, field.alias) and is_level(field.annotation):
                level = field.annotation
        if level is Study and location[0] == "models":
            level = Model
    return [field.alias or name for name, field in level.model_fields.items()]


def is_level(annotation: object) -> TypeGuard[type[BaseModel]]:
    """Whether a field holds a level of the configuration and not a value."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _nearest(word: str, valid: list[str]) -> str:
    match = process.extractOne(word, valid)
    return f" (did you mean {match[0]}?)" if match else ""
