# One place for commands. `just` lists them; everything also works without just.

_list:
    @just --list --unsorted

# The command line, optimised
build:
    cargo build --release -p wearwell-cli

# Everything a change must pass
check:
    ./check

# Tests only; arguments go to cargo, e.g. `just test -p wearwell oracle::`
test *arguments="--workspace":
    cargo test {{arguments}}

# The long explorations whole: every cut, a million operations per design (about an hour on two cores)
soak *arguments:
    WEARWELL_SOAK=1 cargo test -p wearwell --test engine -- {{arguments}}

# The Python package, into the active virtual environment; arguments go to maturin, e.g. `just python --release`
python *arguments="--profile dev --features as-tests":
    maturin develop {{arguments}}

# Simulation rates on this machine: engine, generators, recycling, timing
bench:
    cargo run --release -p wearwell-replay --example speed
    cargo bench -p wearwell-benches
    cargo run --release -p wearwell --example recycle_rate
    cargo run --release -p wearwell --example timing_rate
    cargo run --release -p wearwell-replay --example generator_rate

# Instructions per host write, counted by valgrind and compared with the kept figures; `--keep` keeps the new ones
instructions *arguments:
    tools/instructions {{arguments}}

# Clients of others against the live device; installs their Debian packages (root, /dev/fuse, loop devices)
live:
    examples/live/install.sh
    cargo build --release -p wearwell-cli
    cargo test -p wearwell-serve -- clients:: hostile:: transmission::
    WEARWELL=target/release/wearwell MEDIUM=image examples/live/loop.sh

# Fuzz one target for some seconds (needs a nightly compiler and cargo-fuzz)
fuzz target="readers" seconds="60":
    cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}}

# Designs side by side
compare *arguments="traces/pgbench-ext4.wwt":
    cargo wearwell compare {{arguments}}

# API documentation
doc:
    cargo doc --workspace --no-deps --open

# The documentation site: documents, notebooks, references of Python and of the commands, into target/site/html
site:
    tools/site
