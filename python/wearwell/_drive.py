"""Drives: a preset, perhaps with other figures, or a geometry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, SupportsFloat, SupportsIndex

from ._native import Configuration, WearwellError, devices, unknown_name
from ._settings import Value, refuse_surrogates, setting, without_numpy


class Drive:
    """A drive: a preset (`Drive.presets()`), of which arguments replace single figures.

    Without a preset the drive is `auto`, a small drive whose size fits the input. Every argument is a key of `[device]` in
    docs/configuration.md and has its unit in its name.
    """

    def __init__(
        self,
        preset: str | None = None,
        *,
        over_provisioning: SupportsFloat | None = None,
        over_provisioning_of: Literal["logical", "physical"] | None = None,
        logical_pages: SupportsIndex | None = None,
        fit: SupportsFloat | None = None,
        reserve_blocks: SupportsFloat | None = None,
        channels: SupportsIndex | None = None,
        dies_per_channel: SupportsIndex | None = None,
        planes_per_die: SupportsIndex | None = None,
        blocks_per_plane: SupportsIndex | None = None,
        pages_per_block: SupportsIndex | None = None,
        page_bytes: SupportsIndex | None = None,
        spare_bytes: SupportsIndex | None = None,
        superblock_planes: SupportsIndex | None = None,
        striping: Literal["channel-first", "plane-first"] | None = None,
        read_us: SupportsFloat | None = None,
        program_us: SupportsFloat | None = None,
        erase_us: SupportsFloat | None = None,
        channel_mb_per_s: SupportsFloat | None = None,
        endurance_cycles: SupportsIndex | None = None,
        factory_bad_share: SupportsFloat | None = None,
        wear_out: bool | None = None,
    ) -> None:
        given: dict[str, Value | None] = {
            "over_provisioning": over_provisioning,
            "over_provisioning_of": over_provisioning_of,
            "logical_pages": logical_pages,
            "fit": fit,
            "reserve_blocks": reserve_blocks,
            "channels": channels,
            "dies_per_channel": dies_per_channel,
            "planes_per_die": planes_per_die,
            "blocks_per_plane": blocks_per_plane,
            "pages_per_block": pages_per_block,
            "page_bytes": page_bytes,
            "spare_bytes": spare_bytes,
            "superblock_planes": superblock_planes,
            "striping": striping,
            "read_us": read_us,
            "program_us": program_us,
            "erase_us": erase_us,
            "channel_mb_per_s": channel_mb_per_s,
            "endurance_cycles": endurance_cycles,
            "factory_bad_share": factory_bad_share,
            "wear_out": wear_out,
        }
        self.preset = preset
        """Name of the preset; None for a drive whose size fits the input."""
        self.values = {key: without_numpy(value) for key, value in given.items() if value is not None}
        """Figures that replace those of the preset, by key of `[device]`."""
        if preset is not None and not isinstance(preset, str):
            raise WearwellError(f"drive is {preset!r}: give the name of a preset, or a Drive")
        if preset is not None:
            refuse_surrogates("drive", preset)
        known = [name for name, _ in devices()]
        if preset is not None and preset not in known:
            raise unknown_name("device", preset, known)
        Configuration(self.settings())

    @staticmethod
    def presets() -> dict[str, str]:
        """Returns the presets, with the source of their figures."""
        return dict(devices())

    def settings(self) -> list[str]:
        """Returns the drive's figures as settings in the notation of the command line."""
        preset = [] if self.preset is None else [f'device.preset="{self.preset}"']
        return preset + [setting(f"device.{key}", value) for key, value in self.values.items()]

    def settings_of_effect(self) -> list[str]:
        """Returns the settings that must have an effect on a run: all but the times of the drive's flash.

        A drive may be described with its times where nothing takes time.
        """
        times = {f"device.{name}=" for name in ("read_us", "program_us", "erase_us", "channel_mb_per_s")}
        return [text for text in self.settings() if not text.startswith(tuple(times))]

    @property
    def label(self) -> str:
        """Preset and replaced figures of the drive, to distinguish it from others in tables."""
        return self._label_under({})

    def _label_under(self, overriding: Mapping[str, str]) -> str:
        """Returns the label without the figures that other settings override, which are given by dotted key."""
        preset = overriding.get("device.preset", self.preset or "auto").strip('"')
        figures = [f"{key}={value}" for key, value in self.values.items() if f"device.{key}" not in overriding]
        return " ".join([preset, *figures])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drive) and other.settings() == self.settings()

    def __hash__(self) -> int:
        return hash(tuple(self.settings()))

    def __repr__(self) -> str:
        preset = [] if self.preset is None else [repr(self.preset)]
        return f"Drive({', '.join(preset + [f'{key}={value!r}' for key, value in self.values.items()])})"
