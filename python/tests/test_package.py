"""The package is quick to load, typed, and says what its native module says."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import wearwell
from sphinx.pycode import ModuleAnalyzer
from wearwell import _native, _records

from common import ROOT


def test_it_loads_few_modules() -> None:
    """Loading takes a tenth of a second, nearly all of it for these modules of Python; a time would differ between machines."""
    script = "import sys; before = len(sys.modules); import wearwell; print(len(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 160


def test_it_needs_no_other_package() -> None:
    script = "import sys, wearwell; print(*{'numpy', 'pandas', 'polars', 'pyarrow'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_it_is_typed() -> None:
    folder = Path(wearwell.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_native.pyi").exists()


def test_the_stubs_name_what_the_native_module_has() -> None:
    stub = ast.parse((ROOT / "python/wearwell/_native.pyi").read_text())
    stubbed: dict[str, object] = {}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            stubbed[node.name] = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
        elif isinstance(node, ast.ClassDef):
            stubbed[node.name] = {
                inner.name: [argument.arg for argument in (*inner.args.args, *inner.args.kwonlyargs)]
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            }
    names = {name for name in vars(_native) if not name.startswith("__")}
    assert stubbed.keys() == names
    for name, arguments in stubbed.items():
        native = getattr(_native, name)
        if isinstance(arguments, list):
            assert list(inspect.signature(native).parameters) == arguments, name
        elif name not in ("WearwellError", "PowerLoss"):
            assert isinstance(arguments, dict)
            methods = {method for method in vars(native) if not method.startswith("__")} | {"__new__"} & vars(
                native
            ).keys()
            assert methods - {"__new__"} == arguments.keys() - {"__new__"}, name
            for method, parameters in arguments.items():
                if method != "__new__" and callable(getattr(native, method)):
                    assert list(inspect.signature(getattr(native, method)).parameters) == parameters, method


def test_the_fields_of_records_are_those_of_the_schema() -> None:
    spec = importlib.util.spec_from_file_location("records", ROOT / "python/records.py")
    assert spec is not None and spec.loader is not None
    records = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(records)
    renew = "renew it: python python/records.py"
    assert (ROOT / "python/wearwell/_records.py").read_text() == records.text(), renew
    assert issubclass(wearwell.Result, _records.RunRecord)
    assert issubclass(wearwell.LifeResult, _records.LifeRecord)
    assert issubclass(wearwell.ProfileResult, _records.Profile)


def public_objects() -> Iterator[tuple[str, str | None]]:
    """Every public object of the package, with its docstring: names, methods, properties, and attributes of objects."""
    for name in wearwell.__all__:
        value = getattr(wearwell, name)
        if name == "__version__":
            continue
        yield name, vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        if inspect.isclass(value):
            module = ModuleAnalyzer.for_module(value.__module__) if value.__module__.startswith("wearwell.") else None
            yield from members_of(value, module)


def members_of(owner: type, module: ModuleAnalyzer | None) -> Iterator[tuple[str, str | None]]:
    for member, value in vars(owner).items():
        if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, (property, staticmethod, classmethod))):
            yield f"{owner.__name__}.{member}", inspect.getdoc(getattr(owner, member))
    if module is not None:
        module.analyze()
        documented = {name for scope, name in module.attr_docs if scope == owner.__name__}
        for attribute in attributes_of(owner):
            yield f"{owner.__name__}.{attribute}", "documented" if attribute in documented else None


def attributes_of(owner: type) -> set[str]:
    """Public attributes of the objects of a class that its code assigns or declares."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    (body,) = tree.body
    assert isinstance(body, ast.ClassDef)
    found |= {node.target.id for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    found |= {
        target.id
        for node in body.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {name for name in found if not name.startswith("_")}


def test_every_public_object_has_a_docstring() -> None:
    objects = dict(public_objects())
    assert {"Device.write", "Device.design", "Operation.kind", "Sweep.rows", "Drive.presets"} <= objects.keys()
    assert [name for name, text in objects.items() if not text] == []
