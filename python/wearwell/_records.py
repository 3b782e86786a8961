"""Fields of records. Made by python/records.py from docs/schema: change that, and run it again."""

from __future__ import annotations

from ._section import Section


class BytesRecord(Section):
    """Bytes that the host wrote and bytes that were programmed. Counters of pages count a write to a part of
    a page as a whole page; these bytes count only the part."""

    _optional = frozenset({
        "ram_of_4k_map",
        "write_amplification",
    })

    buffered: int
    """Bytes still in the write buffer at the end: written by the host and not programmed. 0 unless
    `buffer.keep_at_end` is set or power is lost after the last request."""
    completed_page_writes: int
    """Page writes that cover only a part of a page with data, so that the rest of the page was read first
    (read-modify-write)."""
    host_written: int
    """Bytes of the host's write requests in the run."""
    mapping_unit: int
    """Size of the map's unit, bytes: a page of the device."""
    partial_page_writes: int
    """Page writes to the FTL that cover only a part of their page; each of them programs a whole page."""
    programmed: int
    """Bytes of all page programs in the run."""
    ram_of_4k_map: int | None
    """RAM of a controller whose map has units of 4 KiB, bytes, for comparison with `RunRecord::ram_bytes`;
    absent if the pages of the device are 4 KiB or smaller."""
    write_amplification: float | None
    """Write amplification in bytes: `programmed / host_written`; absent if the host wrote nothing."""


class BufferConfig(Section):
    """Write buffer between host and FTL."""

    _optional = frozenset({
        "pages",
    })

    keep_at_end: bool
    """Leave pages in the write buffer that are there after the last request: they are neither programmed nor
    counted."""
    pages: int | None
    """Pages of the write buffer; 0 = no buffer. Absent: four for each plane if a page is larger than 4 KiB,
    to join small writes to neighbouring pages, else 0."""
    policy: str
    """Order in which the pages in the write buffer are evicted to flash."""


class ContentConfig(Section):
    """Content of host writes if the trace or workload brings no content, or no sizes of it."""

    _optional = frozenset({
        "model",
    })

    model: str | None
    """Specification of a content model, such as `unique`, `dup:share=0.2,theta=0.9`, or
    `recorded:compress=0.4` for sizes of the contents that a trace identifies. Absent: `unique`."""


class DeltaConfig(Section):
    """Options of the delta design (Delta-FTL), which stores overwrites as differences."""

    _optional = frozenset({
        "cache_entries",
        "heat_entries",
        "journal_pages",
        "max_ratio",
    })

    area_share: float
    """Share of the spare (over-provisioned) space that pages of deltas may use."""
    cache_entries: int | None
    """Entries of the cached mapping table in RAM; the design's mapping tables are then on flash. Absent: all
    tables are in capacitor-backed RAM."""
    heat_entries: int | None
    """Entries of the table of access counts by which delta encoding finds hot pages. Absent: with a map in
    RAM, 1/16 of the logical pages, but at least 65,536 or one for each of them; on the design `delta` with a
    map on flash, `cache_entries`; on other designs with a map on flash, 1/16 of the logical pages, but at
    most 131,072 or 1/128 of the logical pages, whichever is larger."""
    hot_accesses: int
    """Number of reads from which a logical page counts as read-hot, and number of writes from which it counts
    as write-hot."""
    journal_pages: int | None
    """Pages of a journal of L2P map updates on flash. When the journal has that many pages, it is merged into
    the L2P table. Absent: no journal."""
    max_ratio: float | None
    """Largest share of a page that a delta may take. If a delta would be larger, the page is written whole,
    because the delta is not worth its time. Absent: 1 - max(tR, transfer, encode) / tPROG."""
    open_pages: int
    """Pages of deltas that are filled at the same time in RAM before they are programmed (the paper's temp
    buffer)."""
    scan_entries: int
    """Least number of deltas that one scan examines. The scan looks for deltas of pages that are no longer
    written often. It examines all deltas of each flash page that it visits."""
    scan_interval_writes: int
    """Host writes between two scans for deltas of pages that are no longer written often (such deltas are
    merged into their pages); 0 = no scans."""


class DeviceConfig(Section):
    """Layout, timing and capacity of the device; an absent value is taken from the preset."""

    _optional = frozenset({
        "blocks_per_plane",
        "channel_mb_per_s",
        "channels",
        "dies_per_channel",
        "endurance_cycles",
        "erase_us",
        "factory_bad_share",
        "fit",
        "logical_pages",
        "over_provisioning",
        "over_provisioning_of",
        "page_bytes",
        "pages_per_block",
        "planes_per_die",
        "preset",
        "program_us",
        "read_us",
        "reserve_blocks",
        "spare_bytes",
        "striping",
        "superblock_planes",
        "wear_out",
    })

    blocks_per_plane: int | None
    """Blocks per plane."""
    channel_mb_per_s: float | None
    """Transfer rate of a channel, MB/s."""
    channels: int | None
    """Number of channels."""
    dies_per_channel: int | None
    """Dies per channel."""
    endurance_cycles: int | None
    """Rated program/erase cycles of a block."""
    erase_us: float | None
    """tBERS (block erase), microseconds."""
    factory_bad_share: float | None
    """Share of blocks that are bad from the factory, 0 to 0.2; the seed decides which."""
    fit: float | None
    """Share of the exported pages that the workload touches, in (0, 1]: the device is resized so that this
    share is reached. Absent: the device keeps its size, but the preset `auto` uses 1."""
    logical_pages: int | None
    """Number of exported pages; if set, `over_provisioning` is not used."""
    metadata_striping: bool
    """Whether successive pages of metadata (translation pages, page validity, a log of remaps) cycle through
    the planes as those of data do. Otherwise each kind of metadata fills a block before it goes to another
    plane."""
    over_provisioning: float | None
    """Spare space of the flash as a share; `over_provisioning_of` sets whether of the logical or of the
    physical pages."""
    over_provisioning_of: str | None
    """What `over_provisioning` is a share of. `logical`: spare / logical (0.15 exports 87 % of the flash).
    `physical`: spare / physical (0.15 exports 85 %)."""
    page_bytes: int | None
    """Data bytes per page."""
    pages_per_block: int | None
    """Pages per block."""
    planes_per_die: int | None
    """Planes per die."""
    preset: str | None
    """Name of a device preset; `auto` (the default) is a small drive sized to the pages that the workload
    touches."""
    program_us: float | None
    """tPROG (page program), microseconds."""
    read_us: float | None
    """tR (array read), microseconds."""
    reserve_blocks: float | None
    """Number of blocks of each plane that are neither exported nor counted as over-provisioning. Absent: 0.
    On a device that is resized, absent means the number of blocks that GC keeps free or open, so that over-
    provisioning has the effect of its nominal value even on a small device."""
    spare_bytes: int | None
    """Spare (OOB) bytes per page."""
    striping: str | None
    """The order in which successive writes cycle through channels, dies and planes. Absent: `plane-first`
    with multi-plane programs, because these need pages on two planes of a die, else `channel-first`."""
    superblock_planes: int | None
    """Planes that form a superblock; 1 = plain blocks."""
    wear_out: bool | None
    """Whether blocks fail at the end of their rated cycles. Otherwise they never fail, and only their erases
    are counted."""


class DftlConfig(Section):
    """Options of the DFTL design (page map on flash with a cache)."""

    _optional = frozenset({
        "cache_entries",
    })

    cache_entries: int | None
    """Entries of DFTL's cached mapping table. Absent: as many as `mapping.cache_entries`."""


class GcConfig(Section):
    """Garbage collection: victim policy, thresholds, and blocks of metadata."""

    _optional = frozenset({
        "background_share",
        "d",
        "free_share",
        "low_blocks",
        "metadata",
        "metadata_share",
    })

    background_share: float | None
    """Share of free blocks of a pool (a plane, or the planes of a superblock) below which GC also runs in the
    background, in idle time between requests; 0 = no background GC."""
    d: int | None
    """Number of random blocks among which the policy `d-choices` chooses its victim. Absent: 10."""
    free_share: float | None
    """Free-block threshold of GC as a share of the blocks of a pool (a plane, or the planes of a superblock);
    if `low_blocks` is set too, the larger threshold counts."""
    low_blocks: int | None
    """Free-block threshold of GC: GC runs before a write if a pool (a plane, or the planes of a superblock)
    has at most this number of free blocks."""
    metadata: str | None
    """How GC treats blocks of metadata (map and page validity on flash). Absent: the design's own way."""
    metadata_share: float | None
    """For `metadata = "when-empty"`: maximum share of all blocks that metadata may occupy. Beyond it, GC also
    collects metadata blocks that still hold valid pages."""
    policy: str
    """Policy by which GC chooses its victim block."""
    ties: str
    """Which block is GC's victim if several blocks have the fewest valid pages."""


class GeckoConfig(Section):
    """Options of Logarithmic Gecko, a page-validity store on flash."""

    _optional = frozenset({
        "parts",
    })

    merge: str
    """How sorted runs of Logarithmic Gecko are merged."""
    parts: int | None
    """Number of parts into which Logarithmic Gecko divides a block's bitmap of invalid pages (the paper's S);
    each part is an entry of its own. Absent: each entry covers 32 pages."""
    size_ratio: int
    """Size ratio of successive levels of Logarithmic Gecko's sorted runs (the paper's T)."""


class LifetimeConfig(Section):
    """Options of lifetime management: schemes that save flash writes, and throttling of host writes."""

    epoch_s: int
    """Length of an epoch, seconds; the write-saving schemes are chosen anew for each epoch. Not used with
    `best`, which has no clock and uses `epoch_writes`."""
    epoch_writes: int
    """Length of an epoch (after which the write-saving schemes are chosen anew) with `schemes = "best"`, in
    page writes of the host."""
    fitted_energy: bool
    """Whether compression costs twice the energy that the paper on integrated lifetime management states.
    With twice the energy, the model reproduces the paper's break-even; false = the stated energy."""
    schemes: str
    """Which write-saving schemes (deduplication, compression, ...) may be used, and whether host writes are
    throttled."""
    target_years: float
    """Lifetime target in years, counted from the first measured request."""
    verify_on_hit: bool
    """Read the stored page and compare its bytes before deduplicating a write."""


class MappingConfig(Section):
    """Options of an L2P map on flash; an absent value is the design's own."""

    _optional = frozenset({
        "cache_entries",
        "cached_nodes",
        "checkpoints",
        "directory",
        "dirty_share",
        "identification",
        "least_cache_entries",
    })

    cache_entries: int | None
    """Entries of the L2P map's cache in RAM. Absent: 1/32 of the logical pages."""
    cached_nodes: int | None
    """Number of inner nodes that RAM caches, of the directory tree that locates translation pages. Absent:
    all."""
    checkpoints: bool | None
    """Checkpoints: write dirty L2P map entries that have not changed for long to flash, which bounds what
    recovery reads."""
    directory: str | None
    """Where the directory of a map on flash is stored. The directory locates the translation pages."""
    dirty_share: float | None
    """Share of the cached L2P entries that may be dirty; 1 = all of them."""
    identification: str | None
    """When the flash page that a write replaces is identified and marked invalid."""
    least_cache_entries: int | None
    """Lower bound of the number of entries of the L2P map's cache, used if `cache_entries` is absent; a drive
    with fewer logical pages caches its whole map. If this value is absent too: 131,072 on the design
    `wearwell`, no lower bound on other designs."""


class PartsConfig(Section):
    """Names of the parts (content mechanisms, map, page validity, recovery) that replace a design's own; an
    absent part is the design's own."""

    _optional = frozenset({
        "content",
        "map",
        "reverse_map",
        "survives",
        "validity",
    })

    content: list[str] | None
    """All content mechanisms of the design: a list, or names joined by commas or plus signs; `none` for no
    mechanism."""
    map: str | None
    """How the L2P table is stored."""
    reverse_map: str | None
    """Reverse map: how the logical pages that share a flash page are recorded. Absent: the design's own, or
    `ideal` if the design shares no pages."""
    survives: str | None
    """What preserves acknowledged data over a loss of power. Absent: as in the design. If `content`, `map` or
    `reverse_map` replaces a part of the design, absent means: as in the papers about the new parts, or
    `battery` if none of them says it."""
    validity: str | None
    """Where page validity (which pages of a block are valid) is stored."""


class PreconditionConfig(Section):
    """State of the device before the first measured request."""

    _optional = frozenset({
        "bound_share",
        "filled",
        "overwrite",
        "share",
        "trace",
    })

    bound_share: float | None
    """Last step of preconditioning: random logical pages are remapped to the flash pages of other logical
    pages, until this share of the reverse-map entries that `remap.size_mib` holds is valid (Remap-SSD,
    section 5.2: 0.7). Absent: no such step."""
    filled: bool | None
    """For `aged`: write every exported page once before ageing (default no)."""
    mode: str
    """Method of preconditioning that brings the device into its initial state."""
    overwrite: float | None
    """Amount of random overwrites after the first GC, in units of the physical capacity. Defaults: 1 for
    `steady`, 0 for `random`, 0.1 for `constructed` and `in-use`."""
    share: float | None
    """For `aged` if `trace` is absent: share of the input's requests that only age the device, in (0, 1)
    (default 0.5)."""
    trace: str | None
    """For `aged`: path of the trace that ages the device. Absent: the first part of the replayed trace."""


class RecoveryConfig(Section):
    """Options of recovery from a loss of power; an absent value is the design's own."""

    _optional = frozenset({
        "after_requests",
        "blocks",
        "by",
        "spare_read_us",
    })

    after_requests: int | None
    """Number of measured requests after which the power is cut. Recovery is then run and reported, and the
    replay continues. No counter is reset, so that the cost of the recovery and of later corrections is part
    of the run."""
    after_run: bool
    """Cut the power after the last request, run the recovery, and report it."""
    blocks: str | None
    """Pages of each block that recovery reads. Absent: `first-pages` for designs that can recover so, else
    `oob-scan`."""
    by: str | None
    """Method by which an L2P map on flash survives a loss of power."""
    spare_read_us: float | None
    """Time that recovery takes to read a spare area alone, microseconds. Absent: tR and the transfer of the
    spare area, as in the event engine. The paper on `GeckoFTL` (section 2) has 3 us where a page read takes
    100 us."""


class RecycleConfig(Section):
    """Options of the recyclable design, which revives dead pages whose content is written again."""

    _optional = frozenset({
        "entries",
        "history",
        "refresh_age_programs",
    })

    alpha: float
    """Relative growth of a page's popularity per read (alpha in the recyclable-SSD paper), 0.10 to 0.15."""
    beta: float
    """Relative decrease of a dead page's recycle probability per newer version of its logical page (beta in
    the recyclable-SSD paper), 0.15 to 0.20."""
    count_comparisons: bool
    """Compute the rank of every hit in the fingerprint store (the comparisons of a linear search), for the
    run record."""
    entries: int | None
    """Entries of the fingerprint store, the table with the contents of dead pages. Absent: 131072, or 1.25 %
    of the device's pages if that is less (the paper's ratio)."""
    history: str | None
    """Which dead pages have a history (owner, older and newer versions) in RAM. Absent: `store` for the
    design wearwell, `all` for others."""
    policy: str
    """Which dead (invalid) pages the fingerprint store keeps, so that a write of equal content can revive
    them."""
    refresh_age_programs: int | None
    """Maximum age at which a dead page is revived, in flash programs since its block was opened. Absent:
    pages do not age."""
    verify_on_hit: bool
    """Read the dead page and compare its bytes before a write of equal content revives it."""
    window: int
    """Window of fast loading, in logical pages on each side: after a hit in the fingerprint store, the dead
    pages of so many neighbours of the logical page are loaded into the store too."""


class RemapConfig(Section):
    """Options of the remap design (Remap-SSD), in which several logical pages may share a flash page."""

    _optional = frozenset({
        "index_entries",
        "index_share",
        "size_mib",
    })

    atomic_commands: bool
    """A remap command of several pages takes effect entirely or not at all; reverse-map entries take 24 bytes
    instead of 16."""
    dedup: bool
    """Deduplicate host writes too, and not only execute the host's remap commands."""
    index_entries: int | None
    """Entries of the content index (fingerprint to stored page) that deduplication searches; absent =
    determined by `index_share`."""
    index_share: float | None
    """Number of entries of the content index (fingerprint to stored page), as a share of the exported pages,
    greater than 0 and at most 1; the index has at least 131,072 entries. Absent: an entry for every stored
    page; on the design wearwell, 1/64 of the exported pages."""
    reverse_map: str
    """Reverse map: how the logical pages that share a flash page are recorded."""
    segment_bytes: int
    """Size of an NVRAM segment of the reverse map, bytes."""
    size_mib: float | None
    """Size of the reverse map in NVRAM, or of its log on flash, MiB. Absent: the Remap-SSD paper's ratio of
    80 MiB to 36 GiB of flash."""
    sparse_counts: bool
    """Keep reference counts only for flash pages that several logical pages share, instead of a 4-bit
    reference count for every flash page."""
    verify_on_hit: bool
    """Read the stored page and compare its bytes before a host write is deduplicated, that is, mapped to the
    stored page."""


class ReplayConfig(Section):
    """How the requests of the input are issued to the device."""

    _optional = frozenset({
        "queue_depth",
        "requests",
        "seed",
        "time_scale",
        "timeline_cells",
    })

    addresses: str
    """How addresses in the trace are mapped to logical pages of the device."""
    arrival: str
    """How the arrival times of requests at the device are determined."""
    queue_depth: int | None
    """Requests in flight in closed loop, that is with `arrival = "closed"` (default 32)."""
    requests: int | None
    """Number of requests after which the replay stops. Absent: it replays the whole input."""
    seed: int | None
    """Seed of all random choices (default 1)."""
    time_scale: float | None
    """Factor by which the times of the trace are multiplied (default 1)."""
    timeline_cells: int | None
    """Maximum number of cells in the block map (chart of the blocks' state) of a timeline. A timeline
    (counters and latencies in windows of time) is recorded only if this is set."""
    zeroes: str
    """Whether a write-zeroes request is executed as a trim or as a write."""


class ContentTablesConfig(Section):
    """Limit of the controller RAM for tables that grow with the stored contents."""

    _optional = frozenset({
        "content_bytes_per_page",
        "content_least_mib",
    })

    content_bytes_per_page: float | None
    """Limit of the controller RAM for the tables of content mechanisms (referrers of shared pages, deltas,
    directory of chunks), bytes per flash page. While the tables are full, pages are stored whole. Absent: 1/8
    on the design `wearwell`, no limit on other designs."""
    content_least_mib: float | None
    """Minimum of the limit that `content_bytes_per_page` sets, MiB: a smaller limit is raised to it. Absent:
    16."""


class TimingConfig(Section):
    """Options of the time model."""

    _optional = frozenset({
        "gc_backlog_ops",
    })

    blocking_gc: bool
    """Let a host write wait until the GC that it triggered has finished (foreground GC)."""
    buffered_writes: int
    """Maximum number of host writes that are acknowledged and not programmed yet."""
    compress_us: float
    """Time to compress a page, microseconds (paper on integrated lifetime management, section IV)."""
    controller_overhead_us: float
    """Time that each host request spends outside the flash, microseconds."""
    decompress_us: float
    """Time to decompress a page, microseconds. An assumption of ours, because the paper on integrated
    lifetime management leaves reads out."""
    delta_codec_units: int
    """Number of hardware units that encode and apply deltas (Delta-FTL, section 3.3.2: one processor). 0: as
    many units as there are requests."""
    delta_decode_us: float
    """Time to apply a delta to a page, microseconds (Delta-FTL, table 1, at 619 MHz)."""
    delta_encode_us: float
    """Time to encode a delta (the difference of a page from its earlier version), microseconds (Delta-FTL,
    table 1, at 619 MHz)."""
    gc_backlog_ops: int | None
    """Number of queued background operations per die above which background work is served before host
    writes. Absent: background work is served before host writes while the die has no erased page; while it
    has few, a part of the background work is served before each host write."""
    gc_holds_reads: bool
    """With more than `gc_backlog_ops` queued operations, serve background work before host reads too."""
    gc_yields: bool
    """Serve background work (GC) only while no host work waits for the same die."""
    hash_us: float
    """Time for hashing and index look-up in designs that examine content, microseconds (32 in the papers on
    the Recyclable SSD and on Remap-SSD). Counts once per request that hashed a page, because the next page is
    hashed while one is programmed."""
    independent_planes: bool
    """Let each plane of a die work independently, as if it were a die."""
    mode: str
    """Timing engine: none, a timeline per die and channel, or discrete events."""
    multi_plane: bool
    """Run equal operations on several planes of a die as one multi-plane operation."""
    nvram_read_ns: float
    """Time to read 64 bytes of NVRAM, nanoseconds (Remap-SSD, section 5.1). There is one NVRAM, for which
    requests queue."""
    nvram_write_ns: float
    """Time to write 64 bytes of NVRAM, nanoseconds (Remap-SSD, section 5.1)."""
    read_priority: bool
    """Serve host reads before host writes."""
    suspend: bool
    """Suspend programs and erases for host reads."""
    suspend_max: int
    """Maximum number of times that one program or erase is suspended."""
    suspend_overhead_us: float
    """Time that a suspension adds to the suspended program or erase, microseconds."""


class ValidityConfig(Section):
    """Options of the page-validity store (which pages of each block are valid); an absent value is the
    design's own."""

    _optional = frozenset({
        "kind",
    })

    batch: bool
    """For `bitmap`: one program of a bitmap page applies all pending changes of that page, instead of one
    change."""
    kind: str | None
    """The kind of store that records which pages are valid."""


class WearConfig(Section):
    """Wear leveling: dynamic, static, or dual-pool."""

    dual_pool_gap: int
    """Threshold of dual-pool wear leveling (Chang, SAC 2007): difference of erases between two blocks beyond
    which cold data moves to the more worn one; 0 = off. Excludes static wear leveling."""
    dynamic: bool
    """Choose free blocks by wear when they are opened: the least worn for host data, the most worn for GC
    copies."""
    scan: bool
    """Static wear leveling searches for little-worn blocks by reading the spare areas of blocks in turn,
    instead of by erase counts in RAM. When a block is collected, it reads one spare area for each page
    programmed since the collection before, but at most one of each block."""
    static_gap: int
    """Threshold of static wear leveling, in erases: it moves the data of a block that has more than this
    number of erases fewer than the most worn block of its pool (plane, or planes of a superblock); 0 =
    off."""


class Config(Section):
    """A configuration as written by the user; an absent key keeps its default."""

    _sections = {
        "buffer": BufferConfig,
        "content": ContentConfig,
        "delta": DeltaConfig,
        "device": DeviceConfig,
        "dftl": DftlConfig,
        "gc": GcConfig,
        "gecko": GeckoConfig,
        "lifetime": LifetimeConfig,
        "mapping": MappingConfig,
        "parts": PartsConfig,
        "precondition": PreconditionConfig,
        "recovery": RecoveryConfig,
        "recycle": RecycleConfig,
        "remap": RemapConfig,
        "replay": ReplayConfig,
        "tables": ContentTablesConfig,
        "timing": TimingConfig,
        "validity": ValidityConfig,
        "wear": WearConfig,
    }

    buffer: BufferConfig
    """Options of the write buffer between host and FTL."""
    content: ContentConfig
    """Content of host writes if the trace or workload brings no content."""
    delta: DeltaConfig
    """Options of the delta design (Delta-FTL), which stores overwrites as differences."""
    device: DeviceConfig
    """Layout, timing and capacity of the device."""
    dftl: DftlConfig
    """Options of the DFTL design (page map on flash with a cache)."""
    gc: GcConfig
    """Options of garbage collection."""
    gecko: GeckoConfig
    """Options of Logarithmic Gecko, a store of page validity on flash."""
    lifetime: LifetimeConfig
    """Options of lifetime management: write-saving schemes (deduplication, compression, ...) chosen per
    epoch, and throttling for a target in years."""
    mapping: MappingConfig
    """Options of L2P maps that are stored on flash."""
    parts: PartsConfig
    """Parts (content mechanisms, map, page validity, recovery) that replace the design's own."""
    precondition: PreconditionConfig
    """Preconditioning: the state of the device before the first measured request."""
    recovery: RecoveryConfig
    """Options of recovery from a loss of power."""
    recycle: RecycleConfig
    """Recycling of dead pages: for the design `recyclable`, or with `parts.content=recycle`."""
    remap: RemapConfig
    """Options of the remap design (Remap-SSD), in which several logical pages may share a flash page."""
    replay: ReplayConfig
    """How the requests of the input are issued to the device."""
    tables: ContentTablesConfig
    """Limit of the controller RAM for tables that grow with the stored contents."""
    timing: TimingConfig
    """Options of the time model."""
    validity: ValidityConfig
    """How page validity (which pages of each block are valid) is recorded."""
    wear: WearConfig
    """Options of wear leveling."""


class LayoutRecord(Section):
    """Physical layout of a device: its numbers of channels, dies, planes, blocks and pages."""

    blocks_per_plane: int
    """Blocks per plane."""
    channels: int
    """Number of channels."""
    dies_per_channel: int
    """Dies per channel."""
    pages_per_block: int
    """Pages per block."""
    planes_per_die: int
    """Planes per die."""


class DeviceRecord(Section):
    """The device of a run."""

    _sections = {
        "layout": LayoutRecord,
    }

    endurance_cycles: int
    """Rated program/erase cycles of a block."""
    factory_bad_blocks: int
    """Number of blocks that are bad from the factory."""
    gc_low_blocks: int
    """Number of free blocks of a pool (a plane, or the planes of a superblock) at or below which GC runs."""
    layout: LayoutRecord
    """Number of channels, dies, planes, blocks and pages of the device."""
    logical_pages: int
    """Number of exported pages."""
    over_provisioning: float
    """Over-provisioning: (physical - reserve - logical) / logical pages."""
    page_bytes: int
    """Data bytes per page."""
    physical_pages: int
    """Number of physical pages, factory-bad blocks included."""
    preset: str
    """Name of the device preset."""
    reserve_blocks: float
    """Blocks of each plane that count neither as exported nor as over-provisioning: those that GC keeps free,
    the unwritten part of the open blocks, and the expected number of factory-bad blocks. 0 unless the device
    was sized to the input or the configuration sets them."""
    superblock_planes: int
    """Planes that form a superblock; 1 = plain blocks."""


class Latency(Section):
    """A latency distribution of host requests, microseconds."""

    count: int
    """Number of requests in the latency distribution."""
    max: float
    """Largest latency, microseconds."""
    mean: float
    """Mean latency, microseconds."""
    p50: float
    """Median latency, microseconds."""
    p90: float
    """90th percentile of the latency, microseconds."""
    p99: float
    """99th percentile of the latency, microseconds."""
    p999: float
    """99.9th percentile of the latency, microseconds."""
    p9999: float
    """99.99th percentile of the latency, microseconds."""


class LatencyRecord(Section):
    """Latency distributions of host requests, microseconds."""

    _sections = {
        "flush": Latency,
        "read": Latency,
        "write": Latency,
    }

    flush: Latency
    """Latency of flushes; if writes are acknowledged before they are programmed, the host waits for the
    programs here."""
    read: Latency
    """Latency of host reads, microseconds."""
    write: Latency
    """Latency of host writes, microseconds."""


class SchemeRecord(Section):
    """How long a write-saving scheme (such as deduplication) was running under lifetime management."""

    epochs: int
    """Number of epochs in which the content scheme (such as deduplication) was running."""
    share_of_writes: float
    """Share of the host's page writes that arrived in the epochs in which the content scheme (such as
    deduplication) was running."""


class LifetimeRecord(Section):
    """Wear of the drive, the lifetime that it implies, and the work of lifetime management. A year has 365
    days."""

    _tables = {
        "schemes": SchemeRecord,
    }

    _optional = frozenset({
        "drive_writes_per_day",
        "host_tb_written_until_worn",
        "scale_to_bytes",
        "scaled_years",
        "years",
        "years_after_first_epoch",
        "years_by_programs",
    })

    drive_writes_per_day: float | None
    """Drive writes per day that use up the rated cycles in five years: the usual rating (DWPD). Absent if
    `host_tb_written_until_worn` is absent."""
    elapsed_s: float
    """Duration of the measured part of the run, seconds: in open loop the duration of the trace, else the
    device time (simulated time)."""
    endurance_used: float
    """Share of the rated program/erase cycles that the measured part of the run used, mean over all
    blocks."""
    energy_uj_per_page: float
    """Energy of programs, hashing and compression per host page write, microjoules, with the powers and times
    that the paper on integrated lifetime management states for a page of 4 KiB, whatever the page size and
    times of the device; reads and erases are left out, as in that paper."""
    epochs: int
    """Number of epochs of lifetime management in which requests arrived; 0 without management."""
    held_s: float
    """Total time for which throttling held back (delayed) host writes, seconds."""
    held_writes: int
    """Number of host writes that throttling held back (delayed)."""
    host_tb_written_until_worn: float | None
    """Bytes that the host can write until all rated cycles are used, TB (10^12): `physical bytes x cycles /
    write amplification in bytes`, from the steady part of the run, or from all of it if no part was steady.
    Physical bytes are those of blocks that were good from the factory. Absent if no block was erased or
    nothing was written."""
    is_from_steady_part: bool
    """Whether the extrapolation rests on a steady part of the run. If not, `host_tb_written_until_worn`,
    `years`, `scaled_years` and `drive_writes_per_day` hold for this run length only: a longer run of the same
    load gives other figures."""
    max_erase_count: int
    """Erases of the most worn block since the device was new."""
    mean_erases_per_block: float
    """Erases per block in the measured part, mean over all blocks."""
    min_erase_count: int
    """Erases of the least worn block since the device was new."""
    scale_to_bytes: int | None
    """Exported capacity, in bytes, of the drive to which `scaled_years` is scaled; absent if no size was
    given."""
    scaled_years: float | None
    """Years of a drive of `scale_to_bytes` exported bytes that receives the same bytes per second as the
    simulated drive, and so fewer drive writes per day. Assumes that both drives have the same write
    amplification, which holds if the footprint grows in proportion."""
    schemes: dict[str, SchemeRecord]
    """How long each content scheme (such as deduplication) was running under lifetime management, by its name
    in `parts.content`; empty without management."""
    throttled_epochs: int
    """Number of epochs of lifetime management in which host writes were throttled."""
    write_until_programmed_us: float
    """Mean latency of host writes, microseconds, if a write ends only when its content is programmed or
    mapped to a stored page with equal content. A page that is buffered until a compressed chunk is full
    counts with the response time of the write that completes the chunk. 0 without timing or compression;
    `latency_us.write` is then the figure."""
    years: float | None
    """Years until `host_tb_written_until_worn` is reached at the rate of host bytes in `elapsed_s`; absent if
    the run has neither request times nor a timing engine."""
    years_after_first_epoch: float | None
    """Predicted years until the rated cycles are used, computed as `years_by_programs`, but without the first
    epoch of lifetime management. In that epoch nothing is known yet and no write-saving scheme runs: in five
    years it is a 525,600th of the time, but in a short run a large part. Absent without lifetime
    management."""
    years_by_programs: float | None
    """Years until the rated cycles are used, at the rate of the page programs in the whole measured part,
    including those before the first garbage collection."""


class Origin(Section):
    """Origin of the value of a setting: the kind of its source, and where exactly."""

    _optional = frozenset({
        "place",
    })

    place: str | None
    """Where exactly the value was set, such as `drive.toml:12` or the name of a preset; absent if the kind of
    source says all."""
    source: str
    """Kind of source from which the setting got its value."""


class SeriesPoint(Section):
    """Counters at one moment of a run; all counts are totals since the first measured request."""

    device_s: float
    """Device time (simulated time) at this moment of the run, seconds; 0 without timing."""
    erases: int
    """Block erases of the run so far."""
    free_blocks: int
    """Number of free blocks of the drive at this moment of the run."""
    host_bytes: int
    """Bytes of the host's write requests so far."""
    host_page_remaps: int
    """Pages that the host remapped so far."""
    host_page_writes: int
    """Host page writes of the run so far."""
    programs: int
    """Page programs of the run so far."""
    recycled_writes: int
    """Host page writes so far that revived a dead page."""
    requests: int
    """Requests of the run so far."""


class RecoveryCost(Section):
    """Flash operations of a recovery (or of one of its steps), and the time that they take."""

    page_reads: int
    """Reads of whole pages during the recovery."""
    programs: int
    """Page programs during the recovery."""
    spare_reads: int
    """Reads of spare areas alone during the recovery."""
    time_s: float
    """Sum of the times of the recovery's flash operations, seconds."""


class RecoveryRecord(Section):
    """A recovery from a loss of power that was executed in the simulation. Its flash operations are counted,
    and its time is the sum of their times, as if they ran one after the other."""

    _sections = {
        "total": RecoveryCost,
    }

    _tables = {
        "steps": RecoveryCost,
    }

    battery_programs: int
    """Pages that a battery wrote to flash when the power was lost."""
    steps: dict[str, RecoveryCost]
    """Cost of the steps of recovery by name; steps without flash operations are absent."""
    total: RecoveryCost
    """Cost of the whole recovery, without the pages that a battery wrote."""


class ServiceRecord(Section):
    """How the host's requests arrived in a run, and at what rate the drive answered them; without a timing
    engine all figures but `unwritten_page_reads` are absent."""

    _optional = frozenset({
        "arrival",
        "mb_per_s",
        "queue_at_end_s",
        "queue_depth",
        "requests_per_s",
    })

    arrival: str | None
    """The arrival mode that was in effect in the run: at the input's times, closed loop, or think time."""
    is_overloaded: bool
    """Whether requests arrived faster than the drive could answer them. Latencies then reflect the length of
    the queue, and grow with the run."""
    mb_per_s: float | None
    """Rate of host reads and writes, MB (10^6 bytes) per second of device time."""
    queue_at_end_s: float | None
    """Backlog at the end of the run: time from the last arrival of a request to the last answer, seconds;
    only if requests arrive at the input's times."""
    queue_depth: int | None
    """Number of requests in flight; only in closed loop."""
    requests_per_s: float | None
    """Requests answered per second of device time (IOPS)."""
    unwritten_page_reads: int
    """Host page reads of pages that were never written, or were deallocated; they need no flash operation.
    Requests that read only such pages are left out of read latencies."""


class Steadiness(Section):
    """How steady write amplification was in the measured part of a run, and the totals of the run's steady
    part."""

    deviation: float
    """Deviation of write amplification: the largest difference of a window's write amplification from the
    mean, as a share of the mean, in the steady part (in the last half of the run if no part was steady)."""
    drive_writes: float
    """Bytes that the host wrote in the whole measured part, as a multiple of the exported bytes."""
    erases: int
    """Block erases in the steady part; in the whole measured part if no part was steady."""
    from_request: int
    """Number of requests before the steady part; 0 if no part was steady."""
    host_bytes: int
    """Bytes that the host wrote in the steady part; in the whole measured part if no part was steady."""
    host_page_writes: int
    """Host page writes in the steady part; in the whole measured part if no part was steady."""
    is_steady: bool
    """Whether write amplification was steady from request `from_request` to the end of the measured part."""
    programs: int
    """Page programs in the steady part; in the whole measured part if no part was steady."""
    slope: float
    """Slope of write amplification: the rise of a straight line fitted to the windows' write amplification
    from the first window to the last, as a share of the mean, in the steady part (in the last half of the run
    if no part was steady)."""


class WearHistogram(Section):
    """Histogram of the erase counts of the blocks since the drive was new; retired blocks are left out."""

    blocks: list[int]
    """Number of blocks in each bin of erase counts; at most 40 bins."""
    erases_per_bin: int
    """Width of a histogram bin, erases."""
    first_erases: int
    """Erase count at which the histogram's first bin begins: that of the least worn block."""


class TimelineFrame(Section):
    """A map of a drive's blocks at one moment of a run, and their wear."""

    _sections = {
        "wear": WearHistogram,
    }

    cells: str
    """The cells of the block map: two base64url digits per cell, a number of 12 bits. The upper four bits are
    the valid pages and the middle four the invalid pages, both in fifteenths of the cell's pages. The lower
    four bits state what most blocks in use hold: 0 nothing (all blocks are free), 1 data, 2 translation
    pages, 3 deltas, 4 compressed chunks, 5 the remap log, 6 page validity; 15 if all blocks are retired."""
    host_bytes: int
    """Bytes of the host's write requests up to the moment of this block map."""
    requests: int
    """Requests of the run up to the moment of this block map."""
    wear: WearHistogram
    """Histogram of the erase counts of the drive's blocks."""


class WindowLatency(Section):
    """Latencies of the requests answered between two samples of a timeline, microseconds. If two windows
    (intervals between samples) were joined to save memory, each percentile is the larger one of the two
    windows."""

    count: int
    """Number of requests answered between the two samples, to which the latencies belong."""
    max: float
    """Largest latency of the requests answered between the two samples, microseconds, within 0.1 %."""
    p50: float
    """Median latency of the requests answered between the two samples, microseconds."""
    p99: float
    """99th percentile of the latencies of requests answered between the two samples, microseconds."""
    p999: float
    """99.9th percentile of the latencies of requests answered between the two samples, microseconds."""


class TimelineWindow(Section):
    """A sample of the counters of a run, and the latencies since the previous sample."""

    _sections = {
        "read_us": WindowLatency,
        "write_us": WindowLatency,
    }

    _optional = frozenset({
        "read_us",
        "write_us",
    })

    device_s: float
    """Device time (simulated time) at this sample, seconds; 0 without timing."""
    free_blocks: int
    """Number of free blocks at the moment of this sample."""
    host_bytes: int
    """Bytes that the host's write requests wrote up to this sample."""
    host_page_writes: int
    """Host page writes up to this sample."""
    programs_by_cause: dict[str, int]
    """Page programs up to this sample by cause; causes without any are absent."""
    read_us: WindowLatency | None
    """Latencies of host reads answered since the previous sample; absent if there were none."""
    requests: int
    """Requests of the run up to this sample."""
    write_us: WindowLatency | None
    """Latencies of host writes answered since the previous sample; absent if there were none."""


class Timeline(Section):
    """Timeline of a run or of a drive's life; recorded only if `replay.timeline_cells` is set."""

    _sections = {
        "frames": TimelineFrame,
        "windows": TimelineWindow,
    }

    blocks: int
    """Number of blocks of the drive."""
    blocks_per_cell: int
    """Number of consecutive blocks that share a cell of the block map; the last cell may have fewer."""
    frames: list[TimelineFrame]
    """Block maps at moments of the run, at most 64. The first shows the drive before the first request, the
    last the drive after the last request."""
    windows: list[TimelineWindow]
    """Samples of the run in order, at most 400: counters so far, and latencies since the previous sample."""


class TimeRecord(Section):
    """Figures of the timing engine for a run: simulated time and utilisation."""

    array_utilisation: float
    """Share of the device time in which dies (or independent planes) were busy, mean over all of them."""
    channel_utilisation: float
    """Share of the device time in which channels were busy, mean over all of them."""
    device_s: float
    """Device time (simulated time) at which the last operation ended, seconds since the first measured
    request."""
    mode: str
    """Name of the timing engine."""


class TraceRecord(Section):
    """The input of a run."""

    _optional = frozenset({
        "sha256",
    })

    aging_requests: int
    """Number of requests that aged the device before the measured part."""
    duration_s: float
    """Time from the first to the last measured request, in the trace's own times, seconds."""
    footprint_pages: int
    """Number of distinct 4-KiB pages that the input touches."""
    path: str
    """Path of the trace file, or the specification of a generated workload."""
    rejected: int
    """Number of rejected lines: lines of the trace file that were skipped as invalid."""
    requests: int
    """Number of requests replayed in the measured part."""
    sha256: str | None
    """SHA-256 of the trace file; absent for generated workloads."""


class RunRecord(Section):
    """The result of one design's run."""

    _sections = {
        "bytes": BytesRecord,
        "config": Config,
        "device": DeviceRecord,
        "latency_us": LatencyRecord,
        "lifetime": LifetimeRecord,
        "phases": SeriesPoint,
        "recovery": RecoveryRecord,
        "series": SeriesPoint,
        "service": ServiceRecord,
        "steady": Steadiness,
        "timeline": Timeline,
        "timing": TimeRecord,
        "trace": TraceRecord,
    }

    _tables = {
        "origins": Origin,
    }

    _optional = frozenset({
        "partial_reason",
        "recovery",
        "timeline",
    })

    buffer_absorbed_writes: int
    """Page writes that the write buffer absorbed, so that the FTL did not receive them: the page was written
    again, or trimmed, while it was in the buffer."""
    bytes: BytesRecord
    """Bytes that the host wrote and bytes that were programmed in the run."""
    config: Config
    """The configuration with every value that the run used; another run with it on the same input has the
    same result."""
    cpu_seconds: float
    """CPU time of the measured part of the replay, seconds."""
    design: str
    """Name of the design."""
    device: DeviceRecord
    """The device of the run."""
    erases: int
    """Block erases of all causes."""
    erases_by_cause: dict[str, int]
    """Block erases by cause; causes without any are absent."""
    host_page_reads: int
    """Page reads that the FTL served for the host."""
    host_page_remaps: int
    """Pages that the host requested to remap. On a design without remaps they are executed as page reads,
    writes and trims, and are counted as these too."""
    host_page_trims: int
    """Pages that the host deallocated (trimmed)."""
    host_page_writes: int
    """Page writes that the FTL received from the write buffer, or from the host if there is no write
    buffer."""
    latency_us: LatencyRecord
    """Latencies of host requests, microseconds; zero without a timing engine."""
    lifetime: LifetimeRecord
    """Wear of the blocks in the run, and lifetime extrapolated from it."""
    lost_pages: int
    """Pages whose data was lost: garbage collection could not read them, and programmed a page marked as lost
    in their place."""
    media_errors: int
    """Flash pages that could not be read."""
    notes: list[str]
    """Remarks on the result, such as which figures rest on a model rather than on the input."""
    origins: dict[str, Origin]
    """Origin of each value of the configuration (such as file, command line or preset), by key
    (`section.key`). Keys that are not listed have their default. The list also has the parts of the design,
    and keys that are not in `config` themselves but determine values in it (such as
    `device.over_provisioning`)."""
    partial: bool
    """Whether the run ended before the end of the input; all figures of the record then describe the part
    that was replayed."""
    partial_reason: str | None
    """Why the run ended before the end of the input; absent if it did not."""
    parts: dict[str, float]
    """Figures that the parts of the design (map, page validity, content mechanisms and others) counted in the
    run, by name, such as map cache hits or merges; figures that are zero are absent."""
    peak_rss_bytes: int
    """Largest resident memory of this process during the run, bytes; 0 on systems that do not report it."""
    phases: list[SeriesPoint]
    """Counters at the end of each phase of the run, for inputs that have phases; the difference of two
    successive entries is the activity of a phase."""
    precondition_cpu_seconds: float
    """CPU time of preconditioning, seconds."""
    programs: int
    """Page programs of all causes."""
    programs_by_cause: dict[str, int]
    """Page programs by cause; causes without any are absent."""
    ram_bytes: int
    """RAM that a controller needs for this design, bytes."""
    ram_bytes_by_structure: dict[str, int]
    """RAM of the controller by data structure, bytes."""
    reads: int
    """Flash page reads of all causes, including reads of the spare area alone."""
    reads_by_cause: dict[str, int]
    """Flash reads by cause; causes without any are absent."""
    recovery: RecoveryRecord | None
    """Cost of the recovery from a loss of power after the last request, or after `recovery.after_requests`
    requests, if the configuration sets one."""
    recycled_writes: int
    """Host page writes that programmed nothing because a dead page with equal content was revived."""
    seed: int
    """Seed of all random choices of the run."""
    series: list[SeriesPoint]
    """Time series: the counters of the run at regular moments, at most 200 points."""
    service: ServiceRecord
    """How requests arrived in the run, and how many the drive answered."""
    spare_reads_by_cause: dict[str, int]
    """Flash reads that read only a spare area, by cause; they are included in `reads_by_cause`."""
    steady: Steadiness
    """Whether write amplification was steady in the measured part of the run."""
    timeline: Timeline | None
    """Timeline of the run (counters, latencies and maps of the blocks); recorded only if
    `replay.timeline_cells` is set."""
    timing: TimeRecord
    """Figures of the time model for the run: device time and utilisation."""
    trace: TraceRecord
    """The input of the run."""
    variant: str
    """Settings that distinguish this run from the others of a comparison; empty if the design's name
    suffices."""
    version: str
    """Version of this software."""
    write_amplification: float
    """Write amplification in pages: `programs / host_page_writes`, or 0 without host page writes.
    `BytesRecord::write_amplification` counts bytes."""
    write_reduction: float
    """Share of host page writes that needed no page program for host data: `(writes - programs) / writes`, or
    0 without host page writes. Programs of garbage collection do not count."""
    writes_by_form: dict[str, int]
    """Host page writes by the form in which they were stored: `page` (whole), `unchanged` (not at all: the
    page had the content already), `recycled` (by reviving a dead page), `deduplicated` (mapped to a stored
    page of equal content), `delta`, or `packed` (into a compressed chunk)."""


class Estimate(Section):
    """Mean of a figure (a number such as years or host bytes) over the lives of all seeds, with its
    confidence interval and extremes."""

    _optional = frozenset({
        "half_width",
    })

    half_width: float | None
    """Half the width of the 95 % confidence interval of the mean (Student's t); absent with one seed."""
    least: float
    """Smallest value of the estimated figure over the lives of all seeds."""
    mean: float
    """Mean of the figure over the lives of all seeds."""
    most: float
    """Largest value of the estimated figure over the lives of all seeds."""


class CurvePoint(Section):
    """State of the drives of all seeds when the host has written the same number of bytes to each; a drive
    that has ended keeps the state in which it ended."""

    _sections = {
        "max_erases": Estimate,
        "mean_erases": Estimate,
        "spare": Estimate,
        "write_amplification": Estimate,
    }

    ended: int
    """Number of drives (one per seed) that had ended when the host had written this many bytes."""
    host_bytes: int
    """Bytes that the host has written to each drive at this point of the curves; drives that ended earlier
    have fewer."""
    max_erases: Estimate
    """Erases of the most worn block of a drive."""
    mean_erases: Estimate
    """Erases per block, mean over all blocks of a drive."""
    spare: Estimate
    """Spare blocks left, as a share (0 to 1) of the spare blocks of the new drive."""
    write_amplification: Estimate
    """Write amplification since the previous point of the curves, in programmed bytes per host byte."""


class Endurance(Section):
    """How many program/erase cycles the blocks of a drive endure, and when the drive has ended."""

    early_share: float
    """Share of the blocks that fail early, each after a number of program/erase cycles drawn uniformly
    between 0 and the rated cycles."""
    program_share: float
    """Share of the blocks whose first failed operation is a program; the first failed operation of all others
    is an erase."""
    spare_minimum: float
    """The drive ends when this share of its spare blocks is left."""
    spread: float
    """Standard deviation of the program/erase cycles that a block endures, as a share of the rated cycles,
    which are the mean."""


class LifeEstimates(Section):
    """Lifetime and write amplification of a drive over its whole life, each as an estimate over the drives of
    all seeds."""

    _sections = {
        "first_failure_bytes": Estimate,
        "host_bytes": Estimate,
        "write_amplification": Estimate,
        "years": Estimate,
    }

    _optional = frozenset({
        "first_failure_bytes",
        "years",
    })

    first_failure_bytes: Estimate | None
    """Bytes that the host had written when the first block of a drive failed; absent if a drive ended without
    a failed block."""
    host_bytes: Estimate
    """Bytes that the host wrote until the end of a drive, including the first fill."""
    write_amplification: Estimate
    """Write amplification over the whole life of a drive: programmed bytes per host byte."""
    years: Estimate | None
    """Years until the end of a drive at the rate of the input; absent if the input has no times."""


class LifePoint(Section):
    """State of a drive at one moment of its life."""

    host_bytes: int
    """Bytes that the host has written to the drive so far."""
    max_erases: int
    """Erases of the drive's most worn block so far."""
    mean_erases: float
    """Erases per block of the drive so far, mean over all blocks; erases that failed do not count."""
    programs: int
    """Page programs of the drive so far."""
    spare: float
    """Spare blocks left, as a share of the spare blocks of the new drive; 0 also if more blocks have failed
    than the new drive had spare ones."""


class Wear(Section):
    """Distribution of the erase counts of a drive's blocks."""

    least: int
    """Erase count of the drive's least worn block."""
    mean: float
    """Mean erase count of the drive's blocks; erases that failed do not count."""
    most: int
    """Erase count of the drive's most worn block."""
    p10: int
    """10th percentile of the blocks' erase counts."""
    p50: int
    """Median of the blocks' erase counts."""
    p90: int
    """90th percentile of the blocks' erase counts."""


class Life(Section):
    """The simulated life of one drive, from its first write to its end."""

    _sections = {
        "series": LifePoint,
        "timeline": Timeline,
        "wear": Wear,
    }

    _optional = frozenset({
        "extrapolated_bytes",
        "first_failure_bytes",
        "timeline",
        "years",
    })

    cpu_seconds: float
    """CPU time of the simulation, seconds."""
    end: str
    """Why the simulated drive ended."""
    extrapolated_bytes: float | None
    """Lifetime in host bytes as a short run would extrapolate it: the host bytes of an early part of the
    life, divided by the share of the rated cycles that this part used. Absent if the drive ended before the
    early part was complete."""
    failed_blocks: int
    """Number of blocks that had failed at the end of the drive's life."""
    first_failure_bytes: int | None
    """Bytes that the host had written when the first block of the drive failed; absent if no block failed."""
    host_bytes: int
    """Bytes that the host wrote until the end of the drive's life, including the first fill."""
    leveling_erases: int
    """Number of blocks that wear leveling emptied and erased."""
    leveling_programs: int
    """Number of page programs by which wear leveling copied pages."""
    media_bytes: int
    """Bytes of all page programs until the end of the drive's life."""
    passes: float
    """Number of times that the input was replayed until the end of the drive's life; fractional, because the
    last pass is incomplete."""
    seed: int
    """Seed of the blocks' endurance limits, of the design and of the content of writes."""
    series: list[LifePoint]
    """States of the drive at moments of its life, at most 400."""
    timeline: Timeline | None
    """Timeline of the life (counters and maps of the blocks); recorded only if `replay.timeline_cells` is
    set."""
    usable_endurance: float
    """Share of the rated cycles of all blocks that perfect wear leveling could use before the drive ends. It
    is less than 1 because of the spread of endurance and early failures, which the extrapolation ignores.
    Write amplification that increases as spare blocks fail reduces the lifetime further."""
    wear: Wear
    """Distribution of the erase counts of all blocks when the drive's life ended."""
    years: float | None
    """Years until the end of the drive at the rate of the input; absent if the input has no times."""


class LifeRecord(Section):
    """Simulated lives of drives that differ only in their seed, with the input, design, configuration and
    endurance that they share."""

    _sections = {
        "config": Config,
        "curves": CurvePoint,
        "endurance": Endurance,
        "estimates": LifeEstimates,
        "lives": Life,
    }

    _tables = {
        "origins": Origin,
    }

    _optional = frozenset({
        "estimates",
        "scale_to_bytes",
    })

    config: Config
    """Configuration with every value that the simulated lives (runs of the drive until it is worn out, one
    per seed) used, without the seed."""
    curves: list[CurvePoint]
    """State of the drives at up to 100 moments of their lives, at regular intervals: mean and spread over all
    seeds."""
    design: str
    """Name of the design (kind of FTL) of the drives."""
    endurance: Endurance
    """Distribution of the blocks' endurance limits, and the condition for the end of the drive."""
    estimates: LifeEstimates | None
    """Figures of whole lives over all seeds; absent if a life was interrupted."""
    exported_bytes: int
    """Bytes that the drive exports to the host."""
    input: str
    """Name of the input that wore out the drives."""
    is_filled: bool
    """Whether all exported pages of the drive were written once before the input; this fill counts as written
    by the host."""
    leveling: str
    """Kind of wear leveling of the drives."""
    leveling_ram_bytes: int
    """RAM that wear leveling takes in a controller, bytes."""
    lives: list[Life]
    """Simulated lives of the drive, one for each seed."""
    notes: list[str]
    """Remarks on the results, such as which figures rest on a model rather than on the input."""
    origins: dict[str, Origin]
    """Where the values of the configuration come from, by key (`section.key`), as in the record of a run."""
    physical_bytes: int
    """Bytes of all flash blocks of the drive."""
    rated_cycles: int
    """Rated cycles of a block, which are the mean of the endurance limits."""
    scale_to_bytes: int | None
    """Exported bytes of a larger drive, for which the lifetime in years is computed, too; absent if the user
    gave no size."""
    version: str
    """Version of Wearwell that simulated the lives."""


class SizeShares(Section):
    """Distribution of the compressed sizes (or delta sizes) of pages; each size is stated as a share of the
    page size."""

    incompressible_share: float
    """Share of pages that compression (or delta encoding) does not make smaller than a page."""
    mean: float
    """Mean compressed size (or delta size), as a share of the page size."""
    p10: float
    """10th percentile of the compressed size (or delta size), as a share of the page size."""
    p50: float
    """Median compressed size (or delta size), as a share of the page size."""
    p90: float
    """90th percentile of the compressed size (or delta size), as a share of the page size."""
    pages: int
    """Number of pages whose compressed size (or delta size) is known."""
    sigma: float
    """Standard deviation, over all pages, of the compressed size (or delta size), as a share of the page
    size."""
    tenths: list[float]
    """Histogram with ten bins: shares of pages whose compressed size (or delta size) is at most 0.1 of a
    page, more than 0.1 and at most 0.2, and so on."""


class ContentFigures(Section):
    """Figures on the contents of pages: duplicates and compressibility."""

    _sections = {
        "compressed": SizeShares,
    }

    _optional = frozenset({
        "compressed",
        "compressed_distinct_mean",
    })

    compressed: SizeShares | None
    """Distribution of compressed sizes, each page compressed by itself (LZ4). Each page counts as often as it
    occurs; zero pages are left out."""
    compressed_distinct_mean: float | None
    """Mean compressed size as a share of the page if each distinct content counts once, that is after
    deduplication."""
    compressed_mean_error: float
    """Standard error, from sampling, of the mean compressed size as a share of the page (`compressed.mean`);
    0 if all contents were examined."""
    distinct: int
    """Number of distinct contents without the zero page, extrapolated if the input was sampled."""
    duplicate_pool: int
    """Smallest number n such that the n contents that occurred first receive 99 % of all repetitions of a
    content."""
    duplicate_share: float
    """Pages whose content occurred before, as a share of all pages with known content; zero pages do not
    count as duplicates."""
    duplicate_share_error: float
    """Standard error of `duplicate_share`, from sampling; 0 if all contents were examined."""
    duplicate_theta: float
    """Zipf exponent of the popularity of contents that are repeated."""
    pages: int
    """Number of pages whose content is known, zero pages included."""
    zero_share: float
    """Zero pages as a share of the pages with known content."""


class RewriteFigures(Section):
    """Figures on repeated writes of the same pages."""

    _optional = frozenset({
        "interval_p25_pages",
        "interval_p50_pages",
        "interval_p50_s",
        "interval_p75_pages",
        "interval_p99_pages",
    })

    interval_p25_pages: float | None
    """25th percentile of the interval between two writes of a page, in page writes; null without rewrites."""
    interval_p50_pages: float | None
    """Median interval between two writes of a page, in page writes; null without rewrites."""
    interval_p50_s: float | None
    """Median time between two writes of a page, seconds; null without rewrites or times."""
    interval_p75_pages: float | None
    """75th percentile of the interval between two writes of a page, in page writes; null without rewrites."""
    interval_p99_pages: float | None
    """99th percentile of the interval between two writes of a page, in page writes; null without rewrites."""
    once_share: float
    """Share of the written pages that were written exactly once."""
    once_share_error: float
    """Standard error of `once_share`, from sampling; 0 if all pages were examined."""
    rewrite_share: float
    """Page writes whose page was written before, as a share of all page writes."""
    rewrite_share_error: float
    """Standard error of `rewrite_share`, from sampling; 0 if all pages were examined."""
    writes_per_page: float
    """Mean number of writes per written page."""


class SavingRuns(Section):
    """The drive on which the savings of content mechanisms were measured, and the counters of its run without
    any content mechanism."""

    _sections = {
        "config": Config,
        "device": DeviceRecord,
    }

    config: Config
    """Configuration of the run without content mechanisms, with every effective value."""
    device: DeviceRecord
    """The drive on which all these runs, with and without content mechanisms, were executed."""
    erases: int
    """Block erases of all causes in the run without content mechanisms."""
    host_page_writes: int
    """Page writes of the host in the run without content mechanisms."""
    programs: int
    """Page programs of all causes in the run without content mechanisms."""


class MeasuredSaving(Section):
    """Result of a run of one content mechanism on a drive, compared with a run of the same drive without
    content mechanisms."""

    _optional = frozenset({
        "erases",
    })

    erases: float | None
    """Saved block erases, as a share of the block erases of the drive without content mechanisms; null if
    that drive erases no block."""
    page_writes: float
    """Saved page writes: the share of the host's page writes that needed no program for host data
    (`write_reduction` in the record of the run)."""
    programs: float
    """Saved page programs, as a share of all page programs of the drive without content mechanisms; negative
    if the mechanism causes more programs."""


class Saving(Section):
    """What one content mechanism by itself can save of an input's page writes."""

    _sections = {
        "when_run": MeasuredSaving,
    }

    _optional = frozenset({
        "at_most",
        "when_run",
    })

    at_most: float | None
    """Upper bound of the saving: share of the page writes with known content for which a perfect mechanism
    would program nothing; null if it cannot be computed from the input."""
    at_most_error: float
    """Standard error, from sampling, of the upper bound `at_most`; 0 if all pages and contents were
    examined."""
    mechanism: str
    """Content mechanism (such as deduplication) whose saving this is."""
    when_run: MeasuredSaving | None
    """Measured saving: what the mechanism saves when it runs on a drive; null if it was not run."""


class SkewFigures(Section):
    """How unequally writes spread over the written pages."""

    top_10_percent: float
    """Share of the page writes that go to the most written 10 % of the written pages."""
    top_1_percent: float
    """Share of the page writes that go to the most written 1 % of the written pages."""
    top_20_percent: float
    """Share of the page writes that go to the most written 20 % of the written pages."""
    top_20_percent_error: float
    """Standard error of `top_20_percent`, from sampling; 0 if all pages were examined."""
    zipf_misfit: float
    """How badly the Zipf law fits. For the most written 1, 2, 5, 10, 20 and 50 % of the pages, their measured
    share of the writes is compared with their share by the Zipf law; this is the largest difference."""
    zipf_theta: float
    """Exponent (0 to 2) of the Zipf law that fits the writes of the written pages: under it, two random
    writes hit the same page with the measured probability."""


class SizeShare(Section):
    """A size of read and write requests, and the share of these requests that have it."""

    pages: int
    """Number of pages that a request of this size touches."""
    share: float
    """Requests of this size as a fraction of all read and write requests."""


class TrafficFigures(Section):
    """Figures on the requests of an input."""

    _sections = {
        "other_sizes": SizeShare,
        "sizes": SizeShare,
    }

    _optional = frozenset({
        "other_sizes",
    })

    bytes_read: int
    """Bytes of all read requests."""
    bytes_written: int
    """Bytes of all write requests."""
    duration_s: float
    """Time of the latest request, seconds after the start of the trace; 0 without times."""
    empty_requests: int
    """Number of reads and writes of length zero."""
    flushes: int
    """Number of flush requests."""
    footprint_pages: int
    """Number of distinct pages read or written."""
    other_sizes: SizeShare | None
    """Read and write requests of all sizes that `sizes` does not list: their mean size and their total share;
    null if there are none."""
    pages_remapped: int
    """Number of pages (4 KiB) that remaps give a content, counted once per remap."""
    pages_trimmed: int
    """Number of whole pages (4 KiB) that trims deallocate, counted once per trim."""
    pages_written: int
    """Number of pages (4 KiB) that writes touch, counted once per write."""
    pages_zeroed: int
    """Number of whole pages (4 KiB) that requests fill with zeroes, counted once per request."""
    partial_share: float
    """Share of the read and write requests that cover only a part of a page: they start or end inside it."""
    phase_markers: int
    """Number of phase markers of a host model, which are no requests to the drive."""
    read_mean_bytes: float
    """Mean size of a read request, bytes."""
    read_share: float
    """Share of reads among all read and write requests."""
    remaps: int
    """Number of remap requests, which give pages the contents of other pages."""
    requests: int
    """Number of requests of all kinds."""
    sequential_read_share: float
    """Share of reads that begin where the previous read ended, on the same device number."""
    sequential_write_share: float
    """Share of writes that begin where the previous write ended, on the same device number."""
    sizes: list[SizeShare]
    """The most frequent sizes of read and write requests, in pages touched, with their shares."""
    trim_share: float
    """Trims as a share of all requests."""
    unsorted_times: int
    """Number of requests whose time lies before that of the previous request."""
    write_mean_bytes: float
    """Mean size of a write request, bytes."""
    written_pages: int
    """Number of distinct pages written."""
    zeroes: int
    """Number of requests that write zeroes."""


class Profile(Section):
    """Properties of an input's data and traffic, as in the JSON of a profile. Names of fields are stable; a
    figure that does not exist for the input is null."""

    _sections = {
        "content": ContentFigures,
        "delta": SizeShares,
        "rewrites": RewriteFigures,
        "runs": SavingRuns,
        "savings": Saving,
        "skew": SkewFigures,
        "traffic": TrafficFigures,
    }

    _optional = frozenset({
        "content",
        "content_line",
        "delta",
        "rewrites",
        "runs",
        "skew",
        "traffic",
        "unchanged_share",
        "workload_line",
    })

    content: ContentFigures | None
    """Figures on the contents of the written pages, or of the pages of files; null if no content is known."""
    content_line: str | None
    """Specification of a content model, for the option `--content`, that generates content like that of the
    input."""
    contents_sampled_1_of: int
    """Sampling of contents: one of this many contents was examined; 1 = all."""
    delta: SizeShares | None
    """Sizes of deltas (compressed differences between successive versions of a page), as shares of the page;
    unchanged pages are left out."""
    input: str
    """Name of the profiled input."""
    notes: list[str]
    """Remarks that a reader of the figures must know, such as sampling."""
    pages_sampled_1_of: int
    """Sampling of pages: one of this many pages was examined; 1 = all."""
    partial: bool
    """Whether profiling ended early: before the end of the input, or before every content mechanism was
    simulated on a drive."""
    rewrites: RewriteFigures | None
    """Figures on rewrites of pages by a trace; null for files."""
    runs: SavingRuns | None
    """The drive on which the content mechanisms were run, with the results of these runs; null if they were
    not run."""
    savings: list[Saving]
    """What each content mechanism by itself could save of the page writes, and what it saved when it was run
    on a drive."""
    skew: SkewFigures | None
    """How unequally the writes of a trace spread over pages; null for files."""
    traffic: TrafficFigures | None
    """Figures on the requests of a trace; null if the contents of plain files are profiled."""
    unchanged_share: float | None
    """Share of overwrites that do not change the content of their page (silent writes). If files are
    profiled: share of pages that equal the same page of the file's old version."""
    workload_line: str | None
    """Specification of a workload, for the option `--workload`, that generates requests like those of the
    input."""


class Change(Section):
    """A change of a figure (result of a run); negative if the figure decreases."""

    _optional = frozenset({
        "relative",
    })

    absolute: float
    """The change in the figure's unit."""
    is_from_unsteady_run: bool
    """Whether the figure is extrapolated and one of the runs involved was not steady; a longer run then gives
    another change."""
    relative: float | None
    """The change divided by the figure of the baseline (no mechanism); absent if the baseline's figure is
    zero or unknown."""


class Gain(Section):
    """How much one mechanism changes a figure, measured in three ways. A change that needs a missing run is
    absent."""

    _sections = {
        "alone": Change,
        "last": Change,
        "shapley": Change,
    }

    _optional = frozenset({
        "alone",
        "last",
        "shapley",
    })

    alone: Change | None
    """Change of the figure if only this mechanism is added to the baseline (no mechanism)."""
    last: Change | None
    """Change of the figure if this mechanism is added last, to all the others: the negative of the change if
    it is removed from the set of all mechanisms."""
    mechanism: str
    """Content mechanism whose effect on the figure this entry states."""
    shapley: Change | None
    """Shapley value: mean change of the figure by adding the mechanism, over all orders in which the
    mechanisms can be added."""


class Overlap(Section):
    """Overlap of the gains of two mechanisms: the sum of what each gains alone on the baseline, less what
    they gain together."""

    _sections = {
        "overlap": Change,
    }

    _optional = frozenset({
        "overlap",
    })

    first: str
    """The first of the two mechanisms whose gains overlap."""
    overlap: Change | None
    """Overlap of the two mechanisms: positive if both save the same writes, negative if they help each other;
    absent if a run is missing."""
    second: str
    """The second of the two mechanisms whose gains overlap."""


class FigureGains(Section):
    """A figure (number, such as page programs) that the runs measured, and how much each content mechanism
    changes it."""

    _sections = {
        "mechanisms": Gain,
        "overlaps": Overlap,
        "whole": Change,
    }

    _optional = frozenset({
        "baseline",
        "whole",
        "why_no_shapley",
    })

    baseline: float | None
    """Value of the figure without any mechanism; absent if that run is missing or does not have the
    figure."""
    figure: str
    """Key of the figure, as in the CSV of runs."""
    mechanisms: list[Gain]
    """Changes of the figure by each mechanism, one entry per mechanism."""
    more_is_better: bool
    """Whether a greater value of the figure is better; if not, a smaller value is."""
    overlaps: list[Overlap]
    """Overlaps of the gains of two mechanisms, one entry per pair."""
    title: str
    """Title of the figure for people, with its unit."""
    whole: Change | None
    """Change of the figure if all mechanisms are added to the baseline (no mechanism). The Shapley values of
    the mechanisms add up to this change."""
    why_no_shapley: str | None
    """Reason why Shapley values are missing although some runs have the figure; absent if the values exist,
    or if no run has the figure."""


class SubsetRun(Section):
    """A subset of the content mechanisms of an ablation, with its run or the reason why there is none."""

    _sections = {
        "run": RunRecord,
    }

    _optional = frozenset({
        "refused",
        "run",
    })

    mechanisms: list[str]
    """Mechanisms in the subset; empty for the baseline."""
    refused: str | None
    """Reason why the engine refuses this subset of the mechanisms on this design; absent if the engine
    accepts it."""
    run: RunRecord | None
    """Record of the run with this subset of the mechanisms; absent if the subset was refused or not begun."""


class Ablation(Section):
    """Results of every subset of some content mechanisms, on one design and input."""

    _sections = {
        "figures": FigureGains,
        "subsets": SubsetRun,
    }

    design: str
    """Name of the design whose content mechanisms are varied."""
    figures: list[FigureGains]
    """How much each mechanism changes each figure."""
    input: str
    """Name of the ablation's input."""
    mechanisms: list[str]
    """The content mechanisms whose subsets were run."""
    notes: list[str]
    """What distinguishes the runs besides their mechanisms. Notes on single runs are in their records."""
    partial: bool
    """Whether some subset of the mechanisms that the engine accepts was not run to the end of the input."""
    settings: str
    """Settings that distinguish this ablation from others of a sweep; empty without a sweep."""
    subsets: list[SubsetRun]
    """Results of all subsets of the mechanisms, from the empty one to that of all mechanisms."""
