"""Finds the compression functions inside the extension files of zlib, lz4 and zstandard.

A package's file is mapped, not imported. Where it does not export what we need, the system's
library is tried. So there is no header, no link and no copy: the code is updated with the package.
"""
import os
from importlib.machinery import PathFinder
from importlib.util import find_spec


cdef extern from "c/fp_codec_api.h" nogil:
    int fp_zlib_load(fp_zlib_api* api, void* handle) noexcept
    int fp_lz4f_load(fp_lz4f_api* api, void* handle) noexcept
    int fp_zstd_load(fp_zstd_api* api, void* handle) noexcept
    void* fp_codec_open(const char* path) noexcept
    void fp_codec_close(void* handle) noexcept

# Per codec: extension modules in order, then libraries. The empty path is the program itself,
# which holds zlib where Python was linked in one piece.
_EXTENSIONS = {
    "gzip": ("zlib",),
    "lz4": ("lz4.frame._frame",),
    "zstd": ("zstandard._cffi", "zstandard.backend_c", "_zstd"),
}
_LIBRARIES = {
    "gzip": ("", "libz.so.1", "libz.1.dylib"),
    "lz4": ("liblz4.so.1", "liblz4.1.dylib"),
    "zstd": ("libzstd.so.1", "libzstd.1.dylib"),
}
_MAC_FOLDERS = ("/opt/homebrew/lib", "/usr/local/lib")

_found = {}     # codec -> the file its functions come from


def _extension_file(module):
    """The file of an extension module, found without importing its packages; or None."""
    package, _, rest = module.partition(".")
    try:
        spec = find_spec(package)
    except ValueError:      # sys.modules holds something without a spec
        return None
    if spec is None:
        return None
    if not rest:
        return spec.origin if spec.has_location else None
    *folders, name = rest.split(".")
    places = [os.path.join(place, *folders) for place in spec.submodule_search_locations or ()]
    found = PathFinder.find_spec(name, places)
    return found.origin if found is not None else None


def candidate_files(codec):
    """The files in which the functions of a codec are looked for, in this order."""
    found = [path for path in map(_extension_file, _EXTENSIONS[codec]) if path]
    for name in _LIBRARIES[codec]:
        found.append(name)
        if name.endswith(".dylib"):
            found.extend(os.path.join(folder, name) for folder in _MAC_FOLDERS)
    return found


cdef bint load_codec(str codec, path) except -1:
    cdef bytes raw = os.fsencode(path)
    cdef void* handle = fp_codec_open(<const char*>raw if raw else NULL)
    cdef bint ok
    if handle == NULL:
        return False
    if codec == "gzip":
        ok = fp_zlib_load(&zlib_api, handle)
    elif codec == "lz4":
        ok = fp_lz4f_load(&lz4f_api, handle)
    else:
        ok = fp_zstd_load(&zstd_api, handle)
    if ok:
        _found[codec] = path
    else:
        fp_codec_close(handle)
    return ok


def describe():
    how = {"snappy": "built in"}
    for codec, name in (("gzip", "zlib"), ("lz4", "lz4"), ("zstd", "zstd")):
        if codec in _found:
            where = _found[codec] or "the Python executable"
            how[codec] = f"{name} {_version(codec)} in {where}"
        else:
            how[codec] = "not available"
    return how


cdef str _version(str codec):
    if codec == "gzip":
        return zlib_api.version_text().decode()
    if codec == "lz4":
        return lz4f_api.version_text().decode()
    return zstd_api.version_text().decode()


for _codec in _EXTENSIONS:
    any(load_codec(_codec, _path) for _path in candidate_files(_codec))
