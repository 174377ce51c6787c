"""Files by their content: what is stored once comes back whole, on any machine, or an error says why not."""

import errno
import functools
import hashlib
import http.server
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from operad.runtime.durable import file_store
from operad.runtime.durable.file_store import GRACE_SECONDS, FileStore
from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.pip import pip_install


def digest_of(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def key_of(data):
    return hashlib.sha256(data).hexdigest()


def place_of(root, data):
    return root / key_of(data)[:2] / key_of(data)


def files_in(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


def error_of(act, kind: type[Exception] = InputError):
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def age(path, seconds=GRACE_SECONDS + 60):
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


@pytest.fixture
def made(tmp_path):
    """Writes a file, as an operator would, and describes it."""
    folder = tmp_path / "made"
    folder.mkdir()

    def made(data=b"figs", name="notes.txt"):
        (folder / name).write_bytes(data)
        return FileDescriptor.of(folder / name)

    return made


@pytest.fixture
def root(tmp_path):
    """Where the store of a test is."""
    return tmp_path / "store"


@pytest.fixture(params=["folder", "file://", "memory://", "local://", "dir::file://"])
def url(request, tmp_path):
    """Addresses of an empty store: of a folder, and of what fsspec reaches."""
    if request.param == "memory://":
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]
        return "memory://runs"
    if request.param == "dir::file://":
        (tmp_path / "shared").mkdir()
        return f"dir://deep/er::file://{tmp_path / 'shared'}"
    return tmp_path / "store" if request.param == "folder" else f"{request.param}{tmp_path / 'store'}"


@pytest.fixture
def machine(url, tmp_path):
    """Stores at the same address, each with a cache of its own, as on another machine."""
    return lambda name="one": FileStore(url, cache=tmp_path / "caches" / name)


# Put and get


def test_what_is_put_on_one_machine_comes_back_on_another_when_the_original_is_gone(machine, made):
    file = made(b"%PDF-figs", "Größe 1.pdf")
    digest = machine().put(file)
    file.path.unlink()
    assert digest == digest_of(b"%PDF-figs")
    path = machine("two").get(digest, file.name)
    assert (path.name, path.read_bytes()) == ("Größe 1.pdf", b"%PDF-figs")
    assert FileDescriptor.of(path) == file.model_copy(update={"path": path})
    assert machine("two").get(digest, file.name) == path


def test_a_content_is_stored_once_whatever_its_names(made, root):
    store = FileStore(root)
    digest = store.put(made(name="a.txt"))
    assert store.put(made(name="b.csv")) == digest
    first, second = store.get(digest, "a.txt"), store.get(digest, "b.csv")
    assert first.samefile(second)
    assert first.samefile(place_of(root, b"figs"))
    assert files_in(root) == [
        f"{digest[7:9]}/{digest[7:]}",
        f"names/{digest[7:]}/a.txt",
        f"names/{digest[7:]}/b.csv",
    ]


def test_a_content_is_uploaded_once(monkeypatch, made, tmp_path):
    uploads = []
    put_file = MemoryFileSystem.put_file
    monkeypatch.setattr(MemoryFileSystem, "put_file", lambda *all_: (uploads.append(1), put_file(*all_)))
    MemoryFileSystem.store.clear()
    for name in ("one", "two", "three"):
        FileStore("memory://once", tmp_path / name).put(made())
    assert uploads == [1]


def test_a_copy_serves_where_there_are_no_links(monkeypatch, made, root):
    def none(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", none)
    store = FileStore(root)
    path = store.get(store.put(made()), "notes.txt")
    assert path.read_bytes() == b"figs"
    assert store.put(FileDescriptor.of(path)) == digest_of(b"figs")


def test_an_empty_file_is_a_file(machine, made):
    digest = machine().put(made(b""))
    assert machine("two").get(digest, "empty").read_bytes() == b""


def test_what_is_stored_is_known_without_reading_it(monkeypatch, made, root):
    store = FileStore(root)
    digest = store.put(made())
    path = store.get(digest, "notes.txt")
    monkeypatch.setattr(hashlib, "sha256", lambda *_: pytest.fail("it was read"))
    for one in (store, FileStore(root)):
        assert one.put(FileDescriptor.of(path)) == digest


def test_a_file_that_rests_is_read_once(monkeypatch, made, root):
    store, file = FileStore(root), made()
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 10)  # its last change is not just now
    digest = store.put(file)
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "sha256", lambda *_: pytest.fail("it was read"))
        assert store.put(file) == digest
    assert store.put(made(b"nuts")) == digest_of(b"nuts")


def test_a_file_that_was_rewritten_in_the_same_moment_is_another(made, root):
    store = FileStore(root)
    for number in range(50):
        data = b"%03d" % number
        assert store.put(made(data)) == digest_of(data)


def test_a_plain_folder_needs_no_fsspec(made, root):
    code = (
        "import sys; sys.modules['fsspec'] = None\n"
        "from operad.runtime.values.file import FileDescriptor; from operad.runtime.durable.file_store import FileStore\n"
        "store = FileStore(sys.argv[1])\n"
        "print(store.get(store.put(FileDescriptor.of(sys.argv[2])), 'x.txt').read_text())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, root, made().path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "figs\n"), done.stderr


@pytest.mark.slow
def test_a_large_file_is_never_whole_in_memory(machine, url, tmp_path):
    if url == "memory://runs":
        pytest.skip("the store is memory")
    large = tmp_path / "large.bin"
    with large.open("wb") as out:
        out.truncate(200 * 2**20)
    file = FileDescriptor.of(large)
    tracemalloc.start()
    try:
        path = machine("two").get(machine().put(file), "large.bin")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size == file.size
    assert peak < 20 * 2**20


# Names and digests


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../../etc/passwd", ".._.._.._etc_passwd"),
        ("/etc/passwd", "_etc_passwd"),
        ("a\\b:c", "a_b:c"),
        ("no\0tes\n.txt", "no_tes_.txt"),
        ("..", "file"),
        (".", "file"),
        ("", "file"),
        (" ", "file"),
        ("\udcff.txt", "?.txt"),
        ("x" * 5000 + ".md", "x" * 197 + ".md"),
        ("ü" * 5000, "ü" * 100),
        ("x" * 300 + "." + "y" * 300, "x" * 200),
        (".env", ".env"),
    ],
)
def test_no_name_leads_out_of_the_store(made, root, name, safe):
    store = FileStore(root)
    path = store.get(store.put(made()), name)
    assert path == root / "names" / key_of(b"figs") / safe
    assert path.read_bytes() == b"figs"


@pytest.mark.parametrize(
    "digest",
    [
        "",
        "figs",
        "sha256:",
        "sha256:../../x",
        key_of(b"figs"),
        digest_of(b"figs") + "\n",
        digest_of(b"figs").upper(),
        None,
    ],
)
def test_what_is_no_digest_is_refused(made, root, digest):
    store = FileStore(root)
    store.put(made())
    assert "is not the digest of a stored file: expected 'sha256:' and 64" in error_of(lambda: store.get(digest, "x"))


def test_a_file_that_is_not_there_is_told_with_where_it_was_looked_for(machine, url):
    text = error_of(lambda: machine().get(digest_of(b"never"), "x"))
    assert str(url).removeprefix("file://") in text
    assert f"holds no file {digest_of(b'never')}; name the store that it was put in" in text


# What cannot be stored


def test_what_is_no_regular_file_is_refused_and_not_waited_for(made, root, tmp_path):
    store, file = FileStore(root), made()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        text = error_of(lambda path=path: store.put(file.model_copy(update={"path": path})))
        assert text == f"{path}: is not a regular file; write its output into one"
    for path in (tmp_path / "gone.txt", Path("a\0b")):
        text = error_of(lambda path=path: store.put(file.model_copy(update={"path": path})))
        assert "was it moved or deleted since it was named?" in text
    assert not root.exists() or files_in(root) == []


def test_a_file_above_the_limit_is_refused(monkeypatch, machine, made):
    monkeypatch.setattr(file_store, "MAX_STORED_BYTES", 3)
    file = made()
    assert error_of(lambda: machine().put(file)) == (
        f"{file.path}: 4 bytes are more than the maximum of 3 for a file store; make it smaller, or keep it elsewhere "
        "and pass on its address"
    )


def test_a_larger_file_than_the_limit_is_not_brought_from_a_remote_store(monkeypatch, made, tmp_path):
    MemoryFileSystem.store.clear()
    digest = FileStore("memory://runs", tmp_path / "one").put(made())
    monkeypatch.setattr(file_store, "MAX_STORED_BYTES", 3)
    assert "4 bytes are more than the maximum of 3" in error_of(
        lambda: FileStore("memory://runs", tmp_path / "two").get(digest, "x")
    )
    assert files_in(tmp_path / "two") == []


class ChangesWhileHashed:
    """A SHA-256 whose first block is when somebody writes on."""

    def __init__(self, change):
        self._digest = hashlib.new("sha256")
        self._change = change

    def update(self, block):
        self._digest.update(block)
        self._change()

    def hexdigest(self):
        return self._digest.hexdigest()


def test_a_file_that_changes_while_it_is_stored_is_not_stored(monkeypatch, made, root):
    store, file = FileStore(root), made()

    def grow():
        with file.path.open("ab") as out:
            out.write(b"!" * (file.path.stat().st_size < 100))

    def rewrite():
        file.path.write_bytes(b"nuts")

    for change in (grow, rewrite):
        with monkeypatch.context() as patched:
            patched.setattr(hashlib, "sha256", lambda change=change: ChangesWhileHashed(change))
            assert error_of(lambda: store.put(file)) == (
                f"{file.path}: changed while it was stored; let its writer finish first"
            )
        assert files_in(root) == []


# A store that fails


def test_a_full_disk_leaves_nothing_behind(root, tmp_path, forked):
    """A limit on the size of files stands for the disk."""
    (tmp_path / "large.bin").write_bytes(os.urandom(2**20) * 8)
    code = (
        "import resource, sys\n"
        "from operad.runtime.values.errors import InputError\n"
        "from operad.runtime.values.file import FileDescriptor; from operad.runtime.durable.file_store import FileStore\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3 * 2**20, 3 * 2**20))\n"
        "try:\n    FileStore(sys.argv[1]).put(FileDescriptor.of(sys.argv[2]))\n"
        "except InputError as error:\n    print(error)\n"
    )
    done = forked.run([sys.executable, "-c", code, root, tmp_path / "large.bin"])
    assert done.stdout == (
        f"{root}: {tmp_path / 'large.bin'} cannot be stored here: File too large; no part of it is kept. "
        "Check free space and permissions, or name another folder\n"
    )
    assert files_in(root) == []


def test_a_folder_that_may_not_be_written_to_is_told(made, root):
    root.mkdir(0o500)
    if os.access(root, os.W_OK):
        pytest.skip("who runs this may write anywhere")
    assert f"{root}: {made().path} cannot be stored here: Permission denied" in error_of(
        lambda: FileStore(root).put(made())
    )


def test_a_file_where_the_folder_should_be_is_told(made, root):
    root.write_text("in the way")
    assert f"{root}: " in error_of(lambda: FileStore(root).put(made()))
    assert root.read_text() == "in the way"


@pytest.mark.parametrize("url", ["", " ", "a\0b"])
def test_an_address_that_names_nothing_is_refused(url):
    assert "is not the address of a file store; name a folder" in error_of(lambda: FileStore(url))


def test_an_address_of_an_unknown_kind_is_refused_at_once():
    assert "fsspec does not know the protocol 'figs'" in error_of(lambda: FileStore("figs://x"))


def test_an_address_that_could_match_other_folders_is_refused():
    assert "memory://a*: contains the wildcard '*'; name" in error_of(lambda: FileStore("memory://a*"))


def test_a_kind_of_address_whose_package_is_missing_says_what_to_install():
    if importlib.util.find_spec("s3fs"):
        pytest.skip("it is installed")
    assert "Install s3fs" in error_of(lambda: FileStore("s3://bucket/runs"), MissingExtraError)


def test_without_fsspec_a_remote_store_names_the_extra(monkeypatch):
    monkeypatch.setattr(file_store, "find_spec", lambda _: None)
    text = error_of(lambda: FileStore("s3://user:secret@bucket/runs"), MissingExtraError)
    assert text == f"s3://bucket/runs: needs the package fsspec: {pip_install('durable')}"


def test_a_store_that_cannot_be_reached_is_told_without_its_password(made, tmp_path):
    store = FileStore("ftp://user:secret@127.0.0.1:1/runs", cache=tmp_path / "cache")
    for act in (lambda: store.put(made()), lambda: store.get(digest_of(b"x"), "x"), lambda: store.collect([])):
        text = error_of(act)
        assert text.startswith("ftp://127.0.0.1:1/runs: ")
        assert "ConnectionRefusedError" in text
        assert "secret" not in text


@pytest.mark.parametrize("half", ["raises", "says nothing"])
def test_an_upload_that_breaks_off_is_no_file_and_the_next_one_succeeds(monkeypatch, made, tmp_path, half):
    MemoryFileSystem.store.clear()
    store = FileStore("memory://runs", tmp_path / "one")

    def torn(self, path, remote):
        self.pipe_file(remote, Path(path).read_bytes()[:2])
        if half == "raises":
            raise RuntimeError("the line went dead")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "put_file", torn)
        text = error_of(lambda: store.put(made()))
    assert "memory://runs: cannot be written to: " in text
    assert ("the line went dead" if half == "raises" else "of 4 bytes 2 arrived") in text
    assert MemoryFileSystem.store == {}
    assert FileStore("memory://runs", tmp_path / "two").get(store.put(made()), "x").read_bytes() == b"figs"


@pytest.fixture
def served(tmp_path):
    """A folder, and its address on a web server that only reads."""
    (tmp_path / "web").mkdir()

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=tmp_path / "web"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield tmp_path / "web", f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_store_on_a_web_server_can_be_read(served, made, tmp_path):
    pytest.importorskip("aiohttp")
    folder, url = served
    digest = FileStore(folder).put(made())
    store = FileStore(url, tmp_path / "cache")
    assert store.get(digest, "notes.txt").read_bytes() == b"figs"
    assert f"{url}: holds no file" in error_of(lambda: store.get(digest_of(b"nuts"), "x"))
    assert f"{url}: cannot be written to: " in error_of(lambda: store.put(made(b"nuts")))


# Several at once, and killed


CHILD = (
    "import sys\n"
    "from operad.runtime.durable import file_store; from operad.runtime.values.file import FileDescriptor\n"
    "file_store.BLOCK_BYTES = 4096\n"
    "print(file_store.FileStore(sys.argv[1], sys.argv[2]).put(FileDescriptor.of(sys.argv[3])))\n"
)


@pytest.mark.parametrize("kind", ["", "local://"])
def test_processes_that_put_the_same_store_it_once(root, made, tmp_path, kind, forked):
    data = os.urandom(2**20) * 4
    path = made(data).path
    children = [
        forked.begin(
            [sys.executable, "-c", CHILD, f"{kind}{root}", tmp_path / f"cache{number}", path], stdout=subprocess.PIPE
        )
        for number in range(4)
    ]
    assert {child.communicate()[0].decode().strip() for child in children} == {digest_of(data)}
    assert files_in(root) == [place_of(root, data).relative_to(root).as_posix()]
    assert place_of(root, data).read_bytes() == data


def test_threads_put_and_get_at_once(machine, made):
    files = [made(b"%d" % (number % 5), f"{number}.txt") for number in range(40)]
    store = machine()

    def there_and_back(file):
        return store.get(store.put(file), file.name).read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(there_and_back, files)) == [b"%d" % (number % 5) for number in range(40)]


def test_who_is_killed_while_writing_leaves_no_file(root, tmp_path, forked):
    large = tmp_path / "large.bin"
    with large.open("wb") as out:
        out.truncate(2**30)
    child = forked.begin([sys.executable, "-c", CHILD, root, tmp_path, large])
    while not any(path.stat().st_size > 2**20 for path in root.glob("writing/*")):
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    (left,) = files_in(root)
    assert left.startswith("writing/")
    assert 2**20 < (root / left).stat().st_size < 2**30
    store = FileStore(root)
    assert store.collect([]) == 0
    assert files_in(root) == [left]
    age(root / left)
    store.collect([])
    assert files_in(root) == []


# Damage and malice


def test_a_content_that_is_whole_is_not_written_again(made, root):
    digest = FileStore(root).put(made())
    before = place_of(root, b"figs").stat().st_ino
    assert FileStore(root).put(made(name="b.txt")) == digest
    assert place_of(root, b"figs").stat().st_ino == before


def test_damage_in_a_folder_is_noticed_and_mended_by_putting_the_file_again(made, root):
    store = FileStore(root)
    digest = store.put(made())
    place = place_of(root, b"figs")
    place.chmod(0o600)
    place.write_bytes(b"nuts")
    for one in (store, FileStore(root)):
        assert error_of(lambda one=one: one.get(digest, "x")) == (
            f"{place}: is damaged: its content does not match its name; delete it, and store the file again"
        )
    assert FileStore(root).put(made()) == digest
    assert store.get(digest, "x").read_bytes() == b"figs"


def test_a_name_whose_file_was_changed_is_made_anew(monkeypatch, made, root):
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    store = FileStore(root)
    path = store.get(store.put(made()), "notes.txt")
    path.write_bytes(b"nuts")
    assert store.get(digest_of(b"figs"), "notes.txt").read_bytes() == b"figs"


def test_damage_in_a_remote_store_is_noticed_and_in_the_cache_mended(made, tmp_path):
    MemoryFileSystem.store.clear()
    store = FileStore("memory://runs", tmp_path / "one")
    digest = store.put(made())
    cached = place_of(tmp_path / "one", b"figs")
    cached.chmod(0o600)
    cached.write_bytes(b"nuts")
    assert store.get(digest, "x").read_bytes() == b"figs"
    (place,) = MemoryFileSystem.store
    fsspec.filesystem("memory").pipe_file(place, b"nuts")
    text = error_of(lambda: FileStore("memory://runs", tmp_path / "two").get(digest, "x"))
    assert text.startswith(f"memory://runs/{digest[7:9]}/{digest[7:]}: is damaged")
    assert files_in(tmp_path / "two") == []


def test_planted_links_lead_nowhere(made, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store, key = FileStore(root), key_of(b"figs")
    digest = store.put(made())

    (root / "names").mkdir()
    (root / "names" / key).symlink_to(outside)
    assert "is a link or a file, but the store needs a folder here" in error_of(lambda: store.get(digest, "secret"))
    (root / "names" / key).unlink()
    (root / "names" / key).mkdir()
    (root / "names" / key / "notes.txt").symlink_to(outside / "secret")
    assert store.get(digest, "notes.txt").read_bytes() == b"figs"

    place = place_of(root, b"figs")
    place.unlink()
    place.symlink_to(outside / "secret")
    assert "is damaged" in error_of(lambda: FileStore(root).get(digest, "other.txt"))
    place.unlink()
    os.mkfifo(place)
    assert "is damaged" in error_of(lambda: FileStore(root).get(digest, "other.txt"))
    assert FileStore(root).put(made()) == digest
    assert place.read_bytes() == b"figs"

    shutil.rmtree(root / "writing")
    (root / "writing").symlink_to(outside)
    assert "find out who owns it and remove it" in error_of(lambda: store.put(made(b"nuts")))
    assert files_in(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


# Collection


def test_what_nothing_refers_to_is_removed_after_its_grace_with_its_names(made, root):
    store = FileStore(root)
    kept, young, old = (store.put(made(data)) for data in (b"kept", b"young", b"old!!"))
    for digest in (kept, young, old):
        store.get(digest, "notes.txt")
    for data in (b"kept", b"old!!"):
        age(place_of(root, data))
    assert store.collect([kept]) == 5
    assert files_in(root) == sorted(
        name for digest in (kept, young) for name in (f"{digest[7:9]}/{digest[7:]}", f"names/{digest[7:]}/notes.txt")
    )
    assert store.collect({kept}) == 0
    assert "holds no file" in error_of(lambda: store.get(old, "notes.txt"))
    assert "holds no file" in error_of(lambda: FileStore(root).get(old, "notes.txt"))


@pytest.mark.parametrize("given", ["original", "stored"])
def test_putting_a_file_again_gives_it_grace_anew(made, root, given):
    file = made()
    digest = FileStore(root).put(file)
    path = FileStore(root).get(digest, "notes.txt")
    for store in (FileStore(root), FileStore(root)):
        age(place_of(root, b"figs"))
        store.put(file if given == "original" else FileDescriptor.of(path))
        assert FileStore(root).collect([]) == 0
    assert store.get(digest, "notes.txt").read_bytes() == b"figs"


def test_a_file_that_is_put_while_it_is_collected_stays(monkeypatch, made, root):
    store, file, replace = FileStore(root), made(), os.replace
    digest = store.put(file)
    age(place_of(root, b"figs"))

    def put_first(source, target):
        monkeypatch.setattr(os, "replace", replace)
        assert FileStore(root).put(file) == digest
        replace(source, target)

    monkeypatch.setattr(os, "replace", put_first)
    assert store.collect([]) == 0
    assert files_in(root) == [place_of(root, b"figs").relative_to(root).as_posix()]


def test_a_remote_store_is_collected_as_a_folder_is(made, tmp_path):
    root = tmp_path / "store"
    url = f"local://{root}"
    store = FileStore(url, tmp_path / "cache")
    kept, old = store.put(made(b"kept")), store.put(made(b"old"))
    (root / "writing" / ("0" * 32)).write_bytes(b"torn")
    for path in (place_of(root, b"kept"), place_of(root, b"old"), root / "writing" / ("0" * 32)):
        age(path)
    age(place_of(tmp_path / "cache", b"old"))
    assert FileStore(url, tmp_path / "cache").collect([kept]) == 3
    assert files_in(root) == [place_of(root, b"kept").relative_to(root).as_posix()]
    assert "holds no file" in error_of(lambda: store.get(old, "x"))

    age(place_of(root, b"kept"), GRACE_SECONDS * 0.75)
    store.put(made(b"kept"))  # too old to be sure that it stays: uploaded again
    assert time.time() - place_of(root, b"kept").stat().st_mtime < GRACE_SECONDS / 2


def test_collecting_at_an_empty_place_removes_nothing(machine):
    assert machine().collect([]) == 0


def test_a_store_whose_files_have_no_age_is_not_collected(monkeypatch, made, tmp_path):
    def unknown(*_):
        raise NotImplementedError

    monkeypatch.setattr(MemoryFileSystem, "modified", unknown)
    MemoryFileSystem.store.clear()
    store = FileStore("memory://runs", tmp_path / "cache")
    digest = store.put(made())
    assert store.put(made()) == digest
    assert "cannot be removed: NotImplementedError" in error_of(lambda: store.collect([]))
    assert len(MemoryFileSystem.store) == 1


@pytest.mark.parametrize("kept", [["figs"], [None], digest_of(b"figs"), [digest_of(b"figs"), ""]])
def test_what_is_kept_must_be_digests_or_nothing_is_removed(made, root, kept):
    store = FileStore(root)
    store.put(made())
    age(place_of(root, b"figs"))
    assert "is not the digest" in error_of(lambda: store.collect(kept))
    assert len(files_in(root)) == 1


def test_what_others_keep_in_the_folder_stays(made, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    key = key_of(b"else")
    others = [
        root / "notes.txt",
        root / key,
        root / "zz" / key,
        root / "ab" / "notes.txt",
        root / "team" / key[:2] / key,  # a store in the store
        root / "writing" / "mine.txt",
        outside / key,
    ]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"else")
        age(path)
    (root / key[:2]).symlink_to(outside)
    FileStore(root).collect([])
    FileStore(f"local://{root}", tmp_path / "cache").collect([])
    assert [path for path in others if not path.exists()] == []
