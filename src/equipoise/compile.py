"""Plain Python in, machine code out, kept on disk by content. The one place that knows numba.

Everything that must be fast (policies, indices, steps, kernels) is written as plain,
undecorated Python. `twin(function)` is its compiled form: each plain function it reaches,
through globals, closures or modules, is replaced by that function's own twin and forced
inline (a kernel that really calls its policy runs at a third of the speed). `kernel(function)`
is the outermost twin: it releases the GIL and is kept on disk.

numba's own cache names an entry by the identity of the functions a kernel closes over, which
is new in every process, so it would never hit; and it looks at one file's date, so it would
serve a stale kernel after an edit of a helper. Ours is named by the *content*: SHA-256 over
bytecode, constants, defaults, closures and globals of every function reached. If numba's
internals differ from what we know, compilation goes on without a cache: correct, slower to start.

`borrow`, `nearby`, `keep_view`, `view_at` and `view_like` are what plain Python cannot say: a view
of a tuple of arrays that is not counted (passing counted arrays in a hot loop costs an atomic pair
each, 1.6 to 2.3 times the time); the same with generators and counters in registers; and such a
view stored at, and read from, an address, so that a call from Python passes one integer (0.12 us)
instead of a tuple of arrays (1 to 6 us).
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import llvmlite.ir as ir
import numba
import numpy as np
from numba import njit
from numba.core import caching, cgutils
from numba.core import types as nb
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError as NumbaError
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic


def _without_scipy() -> None:
    """Let numba load what it compiles with, without scipy.linalg: 0.15 s of a process.

    It looks whether there is one, for a single function of numpy's (cov); what needs it asks again.
    To be called before anything is compiled: what is found on disk needs none of it.
    """
    if "scipy.linalg" in sys.modules or "numba.np.arraymath" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # importing it fails
    try:
        from numba.np import arraymath

        arraymath._HAVE_BLAS = True  # scipy is one of our dependencies
    except Exception:  # numba changed; whoever needs the module imports it, and gets the error
        sys.modules.pop("numba.np.arraymath", None)
    finally:
        del sys.modules["scipy.linalg"]


OPTIONS = {"error_model": "numpy", "nogil": True}
# a function that only compiled ones call needs no door to Python: a third of the time to compile
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
MOST_CACHE_BYTES = 256 * 2**20  # older kernels are dropped beyond this
_FOREIGN = ("numpy", "math", "numba", "builtins", "typing", "collections")

T = TypeVar("T")
_twins: dict[types.FunctionType, tuple[Any, tuple[Any, ...]]] = {}  # with what each reached
_in_the_making: set[types.FunctionType] = set()
_making = threading.RLock()  # what another thread has in the making is not yet a twin
_at_address: dict[tuple[Any, Any, int], Any] = {}
_kept: dict[int, tuple[Any, Any]] = {}  # what stands at the addresses, for plain Python
_shadows: dict[tuple[str, tuple[str, ...]], tuple[types.ModuleType, tuple[Any, ...]]] = {}


@dataclass
class CacheCounters:
    """How many kernels this process found on disk, and how many it had to compile."""

    hits: int = 0
    misses: int = 0


counters = CacheCounters()


def compiled_by(intrinsic_form: Any) -> Callable[[Any], Any]:
    """Mark a plain function whose compiled form is an intrinsic of this file."""

    def mark(function: Any) -> Any:
        function.__compiled__ = intrinsic_form
        return function

    return mark


def compiled_as(other: Any) -> Callable[[Any], Any]:
    """Mark a plain function that compiles from `other` plain code: the two must say it apart."""

    def mark(function: Any) -> Any:
        function.__compiled_as__ = other
        return function

    return mark


def outline(function: Any) -> Any:
    """Mark a function that is called, not inlined: rare and large, such as a sweep."""
    function.__outline__ = True
    return function


def twin(function: Any) -> Any:
    """Return the compiled form of a plain function, made once; it compiles at its first call.

    What it reaches is looked at each time: where that has changed, the twin is made anew.
    """
    if hasattr(function, "__compiled__"):
        return function.__compiled__
    function = getattr(function, "__compiled_as__", function)
    with _making:
        return _twin_of(function)


def _twin_of(function: types.FunctionType) -> Any:
    if function in _in_the_making:  # it calls itself; numba says what it thinks of that
        return function
    _in_the_making.add(function)
    try:
        plain = _substituted(function)
    finally:
        _in_the_making.discard(function)
    reached = _reached(plain)
    made, known = _twins.get(function, (None, ()))
    if made is None or not _same(reached, known):
        inline = not hasattr(function, "__outline__")
        made = njit(forceinline=inline, **INNER, **_counting(function))(plain)
        _twins[function] = made, reached
    return made


def kernel(function: Any) -> Any:
    """Return the compiled form of an outermost function, found on disk if its content was seen."""
    with _making:
        made = njit(**OPTIONS, **_counting(function))(_substituted(function))
    _keep_on_disk(made, function, lambda: content_key(function))
    _collect_later(made)
    return made


def _counting(function: Any) -> dict[str, bool]:
    """Return the option that says whether references to arrays are counted: not in our functions.

    They make no arrays, and the caller of a kernel holds those they get: a sixth less to compile.
    A user's may make some; what is not said would be as in the function that calls it.
    """
    ours = (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    return {"_nrt": not ours}


def first_reason(error: NumbaError) -> str:
    """Return what numba objects to, in one line, without how it got there."""
    lines = [line.strip() for line in str(error).splitlines()]
    noise = ("Failed in", "During:", "File ", "def ", "<source", "[", "This error", "- ", "^", "*")
    said = [line for line in lines if line and not line.startswith(noise)]
    where = next((line for line in lines if line.startswith("File ")), "")
    return " ".join(said[:1]) + (f" ({where.rstrip(':')})" if where else "")


# -- the twin of a function -------------------------------------------------------------------


def _substituted(function: types.FunctionType) -> types.FunctionType:
    """Return `function` with each plain function it reaches replaced by its twin."""
    names = set(_names(function.__code__))
    scope = {
        name: _substitute(value, names)
        for name, value in function.__globals__.items()
        if name in names or name == "__name__"
    }
    closure = tuple(
        types.CellType(_substitute(cell.cell_contents, names))
        for cell in function.__closure__ or ()
    )
    made = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, closure or None
    )
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def _substitute(value: Any, names: set[str]) -> Any:
    if hasattr(value, "__compiled__") or isinstance(value, types.FunctionType):
        return twin(value)
    if isinstance(value, types.ModuleType) and not _foreign(value):
        return _shadow(value, names)
    if isinstance(value, Dispatcher):  # compiled by the user; it counts, whoever calls it
        value.targetoptions.setdefault("_nrt", True)
    return value


def _shadow(module: types.ModuleType, names: set[str]) -> types.ModuleType:
    """A stand-in for `module` whose functions are twins: `levels.draw(...)` compiles too."""
    used = tuple(sorted(name for name in names if hasattr(module, name)))
    values = tuple(_substitute(getattr(module, name), names) for name in used)
    shadow, known = _shadows.get((module.__name__, used), (None, ()))
    if shadow is None or not _same(values, known):
        shadow = types.ModuleType(module.__name__)
        for name, value in zip(used, values, strict=True):
            setattr(shadow, name, value)
        _shadows[module.__name__, used] = shadow, values
    return shadow


def _reached(plain: types.FunctionType) -> tuple[Any, ...]:
    """What a function with its twins put in depends on: the values of its globals and cells."""
    cells = (cell.cell_contents for cell in plain.__closure__ or ())
    return (*plain.__globals__.items(), *enumerate(cells))


def _same(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether two rows of values, or of (name, value), hold the very same objects."""

    def value(one: Any) -> Any:
        return one[1] if type(one) is tuple and len(one) == 2 else one

    return len(some) == len(others) and all(
        value(a) is value(b) for a, b in zip(some, others, strict=True)
    )


def _foreign(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] in _FOREIGN


def _names(code: types.CodeType) -> Iterator[str]:
    """All global and attribute names a piece of code mentions, nested code included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


# -- the content key --------------------------------------------------------------------------


def content_key(function: Any) -> str:
    """Return a hex digest of all that decides what `function` compiles to.

    Raises
    ------
    TypeError
        If it reaches something whose content we cannot name; it is then not cached.
    """
    digest = hashlib.sha256()
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version, _OWN_SOURCE)
    digest.update(repr((versions, sorted(OPTIONS.items()))).encode())
    _feed(digest, function, set())
    return digest.hexdigest()


def _feed(digest: Any, value: Any, seen: set[int]) -> None:
    """Add the content of `value` to the digest, recursively."""
    say = lambda *parts: digest.update(repr(parts).encode() + b"\0")  # noqa: E731
    if hasattr(value, "__compiled__"):  # an intrinsic of this file, whose source is in every key
        return say("intrinsic", value.__qualname__)
    if isinstance(value, types.FunctionType):
        if id(value) in seen:
            return say("again", value.__qualname__)
        seen.add(id(value))
        how = getattr(value, "__outline__", False), *_counting(value).values()
        say("function", value.__qualname__, *how)
        _feed_code(digest, value.__code__, seen)
        _feed(digest, value.__defaults__, seen)
        _feed(digest, getattr(value, "__compiled_as__", None), seen)
        for cell in value.__closure__ or ():
            _feed(digest, cell.cell_contents, seen)
        names = sorted(set(_names(value.__code__)))
        for name in names:
            if name in value.__globals__:
                say("global", name)
                _feed_global(digest, value.__globals__[name], names, seen)
    elif isinstance(value, np.ndarray):
        say("array", value.dtype.str, value.shape)
        digest.update(value.tobytes())
    elif isinstance(value, bool | int | float | complex | str | bytes | None | np.generic):
        say(type(value).__name__, value)
    elif isinstance(value, tuple | list | frozenset):
        items = sorted(value, key=repr) if isinstance(value, frozenset) else value
        say(type(value).__qualname__, len(value), getattr(value, "_fields", ()))
        for item in items:
            _feed(digest, item, seen)
    elif isinstance(value, type):
        say("class", value.__module__, value.__qualname__, getattr(value, "_fields", ()))
    elif isinstance(value, nb.Type):
        say("type", str(value))
    elif hasattr(value, "py_func"):  # already compiled by the user
        say("dispatcher", sorted(getattr(value, "targetoptions", {}).items(), key=repr))
        _feed(digest, value.py_func, seen)
    elif isinstance(value, types.BuiltinFunctionType | np.ufunc) or callable(value):
        say("builtin", getattr(value, "__module__", ""), getattr(value, "__name__", str(value)))
    else:
        raise TypeError(f"no content key for {value!r}")


def _feed_global(digest: Any, value: Any, names: list[str], seen: set[int]) -> None:
    if not isinstance(value, types.ModuleType):
        return _feed(digest, value, seen)
    digest.update(value.__name__.encode())
    if not _foreign(value):
        for name in names:
            if hasattr(value, name):
                _feed_global(digest, getattr(value, name), names, seen)
    return None


def _feed_code(digest: Any, code: types.CodeType, seen: set[int]) -> None:
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _feed_code(digest, constant, seen)
        else:
            _feed(digest, constant, seen)


_OWN_SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()  # our intrinsics' content


# -- the cache on disk ------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where compiled kernels are kept: $EQUIPOISE_CACHE, else the user's cache folder."""
    named = os.environ.get("EQUIPOISE_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "equipoise" / "kernels"


def _collect_later(made: Any) -> None:
    """Let no garbage be looked for while numba compiles or loads: a tenth, or a third, of the time.

    It makes hundreds of thousands of objects, of which few are garbage before it is done.
    """
    compile_ = made.compile

    def compile_first(signature: Any) -> Any:
        with _making:  # one at a time, as numba's own lock has it: what was on comes on again
            was_on = gc.isenabled()
            gc.disable()
            try:
                return compile_(signature)
            finally:
                if was_on:
                    gc.enable()

    made.compile = compile_first


def _keep_on_disk(made: Any, function: Any, key: Callable[[], str]) -> None:
    """Give a compiled function its place in the cache; without one it still works, just later."""
    # TypeError: content without a name; AttributeError: numba changed; OSError: nowhere to write
    try:
        made._cache = _ContentCache(function, key())
    except (TypeError, AttributeError, OSError):
        _without_scipy()


class _ContentCache(caching.FunctionCache):
    """numba's on-disk cache, with entries named by content instead of file and date."""

    def __init__(self, function: Any, key: str) -> None:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(folder)
        tag = f"py{sys.version_info.major}{sys.version_info.minor}"
        base = f"{function.__name__}-{key[:32]}.{tag}"
        self._name, self._py_func = repr(function), function
        self._impl = _Reducer(folder, key, base)
        self._cache_path = str(folder)
        self._cache_file = caching.IndexDataCacheFile(str(folder), base, key)
        self.enable()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (_described(sig), codegen.magic_tuple())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            # super's would first load all that numba needs to compile: 0.1 s of every process
            rtsys.initialize(target_context)
            found = self._load_overload(sig, target_context)
        except Exception:  # a broken or foreign entry: compile anew, in its place
            found = None
            with contextlib.suppress(OSError):
                self._cache_file.flush()
        # a class that was stored by value comes back as another one: it would never be found again
        if found is not None and tuple(found.signature.args) != tuple(getattr(sig, "args", sig)):
            found = None
        if found is None:
            counters.misses += 1
            _without_scipy()
        else:
            counters.hits += 1
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
            _drop_oldest(Path(self._cache_path))
        except Exception:  # a full disk, an unpicklable type: the kernel in memory is still good
            return


def _described(typ: Any) -> str:
    """Name a type of arguments with the fields of its tuples: numba's own names leave them out."""
    if isinstance(typ, tuple):  # a signature
        return ", ".join(_described(part) for part in typ)
    owner = getattr(typ, "instance_class", None)
    if owner is None:
        return str(typ)
    fields = zip(owner._fields, typ, strict=True)
    inside = ", ".join(f"{name}: {_described(part)}" for name, part in fields)
    near_by = getattr(owner, "__near__", "")  # what `nearby` makes of it
    return f"{owner.__module__}.{owner.__qualname__}({inside}){near_by}"


class _Reducer(caching.CompileResultCacheImpl):
    """How a compile result becomes bytes; stands in for numba's locator as well."""

    def __init__(self, folder: Path, key: str, base: str) -> None:
        self._folder, self._key, self._base = folder, key, base
        self._lineno = 0

    @property
    def filename_base(self) -> str:
        return self._base

    @property
    def locator(self) -> Any:
        return self

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._key

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)


def _drop_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.nb?"), key=lambda f: f.stat().st_mtime, reverse=True)
    total = 0
    for file in files:
        total += file.stat().st_size
        if total > MOST_CACHE_BYTES:
            file.unlink(missing_ok=True)


# -- views that are not counted ---------------------------------------------------------------


def _uncounted(context: Any, builder: Any, typ: Any, value: Any) -> Any:
    """Null the owner of each array in a (nested) tuple."""
    if isinstance(typ, nb.Array):
        array = context.make_array(typ)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(typ, nb.BaseTuple):  # type: ignore[attr-defined]
        for i, part in enumerate(typ):
            bare = _uncounted(context, builder, part, builder.extract_value(value, i))
            value = builder.insert_value(value, bare, i)
    return value


@intrinsic
def _borrow(typing_context, value):
    def generate(context, builder, signature, args):
        return _uncounted(context, builder, signature.args[0], args[0])

    return value(value), generate


@compiled_by(_borrow)
def borrow(value: Any) -> Any:
    """Return the same array or tuple of arrays, not counted. Never return or store the result.

    Safe while the caller of the kernel holds the arrays. In plain Python: `value` itself.
    """
    return value


def near(**sizes: int) -> Callable[[type[T]], type[T]]:
    """Say of a class of tuples which of its arrays `nearby` holds near, and how long they are.

    They must be contiguous and just as long, or a kernel raises `ValueError`; and no element of
    them may be reached through another array.
    """

    def mark(owner: type[T]) -> type[T]:
        setattr(owner, "__near__", sizes)  # noqa: B010  (its type has no such attribute)
        return owner

    return mark


def far(owner: type[T]) -> type[T]:
    """Say of a class of tuples that `nearby` leaves all it holds in memory, tuples in it included.

    For what is also reached in another way, such as by the addresses of `view_like`.
    """
    setattr(owner, "__near__", None)  # noqa: B010  (its type has no such attribute)
    return owner


def _is_far(typ: Any) -> bool:
    return getattr(getattr(typ, "instance_class", None), "__near__", {}) is None


def _near(context: Any, builder: Any, typ: Any, value: Any) -> Any:
    """Like `_uncounted`, but the fields that a class names in NEAR become copies on the stack."""
    if not isinstance(typ, nb.BaseTuple) or _is_far(typ):  # type: ignore[attr-defined]
        return _uncounted(context, builder, typ, value)
    for i, part, size in _parts(typ):
        inner = builder.extract_value(value, i)
        bare = _near(context, builder, part, inner)
        if size:
            array = context.make_array(part)(context, builder, bare)
            _check_size(context, builder, typ.instance_class, i, array.nitems, size)
            kept = cgutils.alloca_once(builder, context.get_value_type(part.dtype), size)
            _copy(builder, array.data, kept, size)
            array.data = kept
            bare = array._getvalue()
        value = builder.insert_value(value, bare, i)
    return value


def _check_size(context: Any, builder: Any, owner: Any, i: int, items: Any, size: int) -> None:
    """Raise in the compiled code if an array is not as long as its class says."""
    wrong = builder.icmp_signed("!=", items, items.type(size))
    with builder.if_then(wrong, likely=False):
        said = f"{owner.__name__}.{owner._fields[i]} is held near as {size} elements: it has others"
        context.call_conv.return_user_exc(builder, ValueError, (said,))


def _give_back(context: Any, builder: Any, typ: Any, value: Any, near: Any) -> None:
    """Copy what `_near` kept on the stack to where it came from."""
    if not isinstance(typ, nb.BaseTuple) or _is_far(typ):  # type: ignore[attr-defined]
        return
    for i, part, size in _parts(typ):
        ours, theirs = builder.extract_value(value, i), builder.extract_value(near, i)
        if size:
            make = context.make_array(part)
            to, from_ = make(context, builder, ours).data, make(context, builder, theirs).data
            _copy(builder, from_, to, size)
        else:
            _give_back(context, builder, part, ours, theirs)


def _parts(typ: Any) -> Iterator[tuple[int, Any, int]]:
    """Yield (index, type, size if it is kept near) of each field of a tuple."""
    owner = getattr(typ, "instance_class", None)
    names, sizes = getattr(owner, "_fields", ()), getattr(owner, "__near__", {})
    for i, part in enumerate(typ):
        yield i, part, sizes.get(names[i], 0) if names and isinstance(part, nb.Array) else 0


def _copy(builder: Any, from_: Any, to: Any, size: int) -> None:
    for i in range(size):
        word = builder.load(cgutils.gep_inbounds(builder, from_, i))
        builder.store(word, cgutils.gep_inbounds(builder, to, i))


@intrinsic
def _nearby(typing_context, value):
    def generate(context, builder, signature, args):
        return _near(context, builder, signature.args[0], args[0])

    return value(value), generate


@compiled_by(_nearby)
def nearby(value: Any) -> Any:
    """Return the same tuple of arrays, not counted (`borrow`), its smallest ones held near.

    A compiler cannot know that a store to one array leaves the others alone, so generators and
    counters in arrays go to memory and back at every use. Copies on the stack, indexed by constants
    alone, become registers: 1.2 to 1.25 times the speed. Which, a class says by `near`. A kernel
    ends with `give_back`; one that raises leaves them as they were.
    """
    return value


@intrinsic
def _given_back(typing_context, value, near):
    def generate(context, builder, signature, args):
        _give_back(context, builder, signature.args[0], args[0], args[1])
        return context.get_dummy_value()

    return nb.void(value, near), generate


@compiled_by(_given_back)
def give_back(value: Any, near: Any) -> None:
    """Write what `near = nearby(value)` holds to `value`, at the end of a kernel."""


@intrinsic
def _bits_of(typing_context, value):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(nb.int64))

    return nb.int64(nb.float64), generate


@compiled_by(_bits_of)
def bits_of(value: float) -> int:
    """Return the 64 bits of a double as an integer; monotone for values >= 0."""
    return int(np.float64(value).view(np.int64))


@intrinsic
def _hurry(typing_context, array, index):
    def generate(context, builder, signature, args):
        typ = signature.args[0]
        made = context.make_array(typ)(context, builder, args[0])
        at = cgutils.gep(builder, made.data, args[1])
        where = builder.bitcast(at, cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [where, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return nb.void(array, index), generate


@compiled_by(_hurry)
def hurry(array: np.ndarray, index: int) -> None:
    """Ask for the cache line of an element, to be written soon; changes nothing."""


@intrinsic
def _keep(typing_context, value, address):
    def generate(context, builder, signature, args):
        bare = _uncounted(context, builder, signature.args[0], args[0])
        pointer = builder.inttoptr(args[1], bare.type.as_pointer())
        builder.store(bare, pointer, align=1)
        return context.get_dummy_value()

    return nb.void(value, nb.int64), generate


@njit
def _keep_view(value, address):
    _keep(value, address)


def keep_view(value: Any) -> np.ndarray:
    """Store an uncounted view of a tuple of arrays; return the uint8[size] record that holds it.

    The record's address (`record.ctypes.data`) is what `view_at` reads. Whoever keeps the record
    must keep `value` too, and never reallocate its arrays.
    """
    typ = numba.typeof(value)
    context = cpu_target.target_context
    record = np.zeros(context.get_abi_sizeof(context.get_value_type(typ)), np.uint8)
    address = record.ctypes.data
    _without_scipy()
    _keep_view(value, address)
    _kept[address] = weakref.ref(record, lambda _: _kept.pop(address, None)), value
    return record


def view_at(typ: Any) -> Any:
    """Return a function of an address: it gives back the tuple of numba type `typ` there."""

    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], context.get_value_type(typ).as_pointer())
            return builder.load(pointer, align=1)

        return typ(nb.int64), generate

    return load


@intrinsic
def _view_like(typing_context, like, address):
    def generate(context, builder, signature, args):
        typ = signature.args[0]
        pointer = builder.inttoptr(args[1], context.get_value_type(typ).as_pointer())
        value = builder.load(pointer, align=1)
        return _uncounted(context, builder, typ, value)  # nulls that the compiler can see

    return like(like, nb.int64), generate


@compiled_by(_view_like)
def view_like(like: Any, address: int) -> Any:
    """Return the tuple that `keep_view` put at an address, of the type of `like`.

    So a kernel reaches any number of tuples of one type, and is compiled once for all numbers.
    """
    return _kept[address][1]


def by_address(function: Any, example: Any, arguments: int = 0) -> Any:
    """Return a compiled `call(address, ...)` that runs `function(tuple at address, ...)`.

    `example` is a tuple of the type that will stand at the address; `arguments` how many integers
    are passed on behind it, 0 to 3. A call costs about 0.12 us plus the function's work.
    """
    typ = numba.typeof(example)
    if (function, typ, arguments) in _at_address:
        return _at_address[function, typ, arguments]
    load, body = view_at(typ), twin(function)
    calls = (
        lambda address: body(load(address)),
        lambda address, a: body(load(address), a),
        lambda address, a, b: body(load(address), a, b),
        lambda address, a, b, c: body(load(address), a, b, c),
    )
    call = calls[arguments]
    call.__name__ = f"at_address_{function.__name__}"
    made = njit(**OPTIONS, **_counting(call))(call)
    what = f" {_described(typ)} {arguments}".encode()
    _keep_on_disk(
        made, call, lambda: hashlib.sha256(content_key(function).encode() + what).hexdigest()
    )
    _collect_later(made)
    _at_address[function, typ, arguments] = made
    return made
