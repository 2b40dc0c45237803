"""Files of results: written whole or not at all, and refused in one line where they are broken.

Two forms, told apart by the name: `.nc` is NetCDF, for whoever reads labelled arrays with other
programs; anything else is JSON. Both hold the same record; NetCDF has it as text in the attribute
`RECORD` beside the arrays that were made from it, so that nothing is lost or rounded on the way. It
is written with scipy, which is here anyway: HDF5 and Parquet would each be another library of tens
of megabytes, for files of a few hundred kilobytes.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import secrets
import stat
from typing import TYPE_CHECKING, Any

from equipoise.errors import EquipoiseError

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 2  # of the record; 1 had no number, no cells and no numbers of replications
RECORD = "equipoise_record"
NETCDF = b"CDF"  # how such a file begins
# The names of other forms, which would promise what is not in the file.
OTHERS = (".csv", ".h5", ".hdf5", ".html", ".parquet", ".pkl", ".toml", ".xlsx")


def write_atomic(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write text (UTF-8) or bytes to a file so that a reader sees the old one or the new one whole.

    A temporary file beside it is written, flushed to disk and renamed; an interruption
    leaves nothing behind.

    Raises
    ------
    EquipoiseError
        If the directory does not exist or may not be written to, or the disk is full.
    """
    data = content.encode() if isinstance(content, str) else content
    target = pathlib.Path(os.path.realpath(path))
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode) and not target.is_dir():
            target.write_bytes(data)  # a pipe or /dev/stdout: nothing to replace
            return
        if target.is_dir():
            raise EquipoiseError(f"cannot write {path}: it is a directory; name a file in it")
        temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}")
        try:
            # The default mode, so that the user's umask decides who may read it.
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
        except BaseException:  # Ctrl-C too
            temporary.unlink(missing_ok=True)
            raise
    except FileNotFoundError:
        raise EquipoiseError(
            f"cannot write {path}: the directory {target.parent} does not exist; make it first"
        ) from None
    except OSError as e:
        raise EquipoiseError(f"cannot write {path}: {reason(e)}") from None


def reason(error: OSError) -> str:
    """Return why the system refused, in its words."""
    return (error.strerror or str(error)).lower()


def check_target(path: str | os.PathLike[str], results: bool = False) -> None:
    """Refuse a file that could not be written when the simulation is over.

    With `results`, also a name that promises another form than those of results.

    Raises
    ------
    EquipoiseError
        With the way out.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if results and pathlib.Path(path).suffix.lower() in OTHERS:
        why = "results are saved as .json or .nc"
    elif os.path.isdir(path):
        why = "it is a directory; name a file in it"
    elif not os.path.isdir(folder):
        why = f"the directory {folder} does not exist; make it first"
    elif not os.access(folder, os.W_OK | os.X_OK) and not _in_place(path):
        why = f"no permission to write in {folder}; choose another directory"
    else:
        return
    raise EquipoiseError(f"cannot write {path}: {why}")


def _in_place(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a pipe or a device, which is written without a new one beside it."""
    return os.path.exists(path) and not os.path.isfile(path)


def save_record(path: str | os.PathLike[str], record: dict[str, Any], arrays: Any) -> None:
    """Write a record as the file's name says; `arrays()` makes the dataset for NetCDF."""
    check_target(path, results=True)
    text = json.dumps(record, allow_nan=False, ensure_ascii=False)
    if pathlib.Path(path).suffix.lower() == ".nc":
        write_atomic(path, _netcdf(arrays(), text))
    else:
        write_atomic(path, text + "\n")


def _netcdf(dataset: xr.Dataset, text: str) -> bytes:
    # a dimension of no length would be written as one that grows, and could not be read again
    dataset = dataset.drop_dims([name for name, size in dataset.sizes.items() if size == 0])
    dataset.attrs[RECORD] = text
    content = dataset.to_netcdf(path=None, engine="scipy", format="NETCDF3_64BIT")
    return bytes(content)


def load_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the record that a file holds, in either form.

    Raises
    ------
    EquipoiseError
        If the file cannot be read, was cut off, or holds something else.
    """
    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as e:
        raise EquipoiseError(f"{path}: {reason(e)}") from None
    text = _from_netcdf(path, content) if content.startswith(NETCDF) else content
    try:
        data = json.loads(text)
    except UnicodeDecodeError:
        raise EquipoiseError(f"{path}: neither JSON nor NetCDF; save() writes both") from None
    except json.JSONDecodeError as e:
        whole = content.rstrip()
        if content.startswith(b"{") and (not whole.endswith(b"}") or e.pos >= len(e.doc.rstrip())):
            raise EquipoiseError(
                f"{path}: the file is cut off after {len(content)} bytes; save it again or take "
                "an older copy"
            ) from None
        raise EquipoiseError(f"{path}: not a saved comparison, and not JSON: {e}") from None
    if not isinstance(data, dict):
        raise EquipoiseError(f"{path}: not a saved comparison, but a JSON {type(data).__name__}")
    _check_format(path, data)
    return data


def _from_netcdf(path: str | os.PathLike[str], content: bytes) -> str:
    from scipy.io import netcdf_file

    try:
        with netcdf_file(io.BytesIO(content), "r", mmap=False) as file:
            record = getattr(file, RECORD, None)
    except Exception:  # whatever scipy trips over first
        raise EquipoiseError(
            f"{path}: the file is cut off after {len(content)} bytes, or no NetCDF; save it again "
            "or take an older copy"
        ) from None
    if record is None:
        raise EquipoiseError(f"{path}: a NetCDF file, but not one that save() wrote")
    return str(record.decode("utf-8"))


def _check_format(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    record = data.get("record")
    written = record.get("format", 1) if isinstance(record, dict) else 1
    if not isinstance(written, int) or not 1 <= written <= FORMAT:
        raise EquipoiseError(
            f"{path}: in format {written}, written by Equipoise {data.get('version', 'unknown')}; "
            f"this version reads formats up to {FORMAT}: upgrade, or run it again"
        )
