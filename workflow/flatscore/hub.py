"""Weights from the model hub: safetensors and text files only, at a pinned commit."""

from collections.abc import Mapping
from pathlib import Path

from flatscore.errors import InputError

DOWNLOADS = Path("resources/weights")


def download(source: Mapping[str, str], place: str) -> Path:
    """The folder of a hub id's files at its commit, downloaded where they are missing.

    Raises
    ------
    InputError
        For an unknown or gated id, and for a network that is not there.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    target = DOWNLOADS / source["hub"].replace("/", "--") / source["revision"]
    patterns = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]
    try:
        snapshot_download(
            source["hub"], revision=source["revision"], local_dir=target, allow_patterns=patterns
        )
    except GatedRepoError:
        raise InputError(
            place,
            f"{source['hub']} is gated.",
            "Accept its terms on the hub and set HF_TOKEN to a token of that account.",
        ) from None
    except RepositoryNotFoundError:
        raise InputError(
            place,
            f"the hub has no {source['hub']}, or it is private.",
            "Correct the id, or set HF_TOKEN.",
        ) from None
    except (HfHubHTTPError, OSError) as error:
        raise InputError(
            place,
            f"{source['hub']} could not be downloaded: {error}.",
            "Run again to resume; without a network give a local folder as `path`.",
        ) from None
    return target
