"""The one module that reads the environment and ``.env``: secrets and host paths.

Everything else that a run depends on is a field of ``graph.context.Context`` and is written beside
the run; what is read here never is.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Environment"]


class Environment(BaseSettings):
    """Secrets and host paths, from ``STITCHCUDA_*``, the providers' usual names, or ``.env``."""

    model_config = SettingsConfigDict(env_prefix="STITCHCUDA_", env_file=".env", extra="ignore", populate_by_name=True)

    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    """Key for ``openai:`` models."""
    langsmith_api_key: SecretStr | None = Field(default=None, validation_alias="LANGSMITH_API_KEY")
    """Key for sending traces to LangSmith."""
    cache_dir: Path = Field(default_factory=lambda: Path.home() / ".cache" / "stitchcuda")
    """Where built extensions and the documentation index are kept."""
    cuda_home: Path | None = Field(default=None, validation_alias="CUDA_HOME")
    """CUDA toolkit; found from ``nvcc`` on the path when unset."""
    chroma_url: str | None = None
    """A Chroma server, when one machine is outgrown; an embedded store when unset."""

    sandbox_off: str = ""
    """Walls around workers that are turned off, separated by commas: ``namespaces,disk,landlock,seccomp``."""

    def secrets(self) -> dict[str, bool]:
        """Which keys are present; never their values."""
        return {
            "OPENAI_API_KEY": self.openai_api_key is not None,
            "LANGSMITH_API_KEY": self.langsmith_api_key is not None,
        }
