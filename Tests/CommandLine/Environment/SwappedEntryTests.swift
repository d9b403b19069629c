import Foundation
import TestKit
import Testing

/// The acts of another member of the group of a folder while a command runs: a loop gives the names of files and
/// directories that the command makes to links into a private folder, and back.
///
/// Two tries of each command in each run of the tests, 1,000 with `CIPHERSTORE_FAULTS=all` in the environment.
@Suite(
    "cipherctl in a folder whose entries are exchanged",
    .enabled(if: SharedFolder.canExchange, "needs root, setpriv and python3"))
struct SwappedEntryTests {
    private static let tries = Sweep.isWhole ? 1000 : 2

    static let commands: [[String]] = [
        ["import", "plain.db", "new.db"], ["export", "app.db", "out.db", "--insecure-plaintext"],
        ["backup", "app.db", "second"], ["restore", "copy", "app.db", "--replace", "--yes"],
        ["salvage", "app.db", "new.db"], ["adopt", "std.db"], ["create", "new.db"],
        ["rotate", "app.db", "--no-backup"],
        ["key", "add", "app.db", "--new-raw-key-file", "../own/two.key"], ["destroy", "app.db", "--yes"],
        ["key", "recovery", "app.db", "--output", "out.key"], ["conformance", "app.db", "--report", "out.report"],
    ]

    /// The attacker: exchanges names by renameat2 with RENAME_EXCHANGE, so that a name is never free.
    private static let program = """
        import ctypes, os, random, re, sys
        private = sys.argv[1]
        random.seed(int(sys.argv[2]))
        system = ctypes.CDLL(None)
        folder = re.compile(r'[.](importing|exporting|adopting|partial)-[0-9]+-[0-9a-f]{8}$')
        endings = 'restoring rotating destroying sidecar sidecar[.]bak wal shm journal lock notify keylog'
        file = re.compile('-(' + endings.replace(' ', '|') + ')$|[.]tmp-|[.]db$|^out[.]')
        files = ['secret', 'empty', 'nothing', 'app.db', 'app.db-wal', 'new.db-wal']
        exchange = lambda one, other: system.renameat2(-100, one.encode(), -100, other.encode(), 2)
        while True:
            for name in os.listdir('.'):
                if not folder.search(name) and (not file.search(name) or random.random() < 0.7): continue
                link = 'link-%d' % random.randrange(1 << 40)
                try:
                    os.symlink(private if folder.search(name) else private + '/' + random.choice(files), link)
                    exchange(name, link)
                    for _ in range(random.randrange(40)): os.stat('.')
                    if random.random() < 0.8: exchange(name, link)
                    os.unlink(link)
                except OSError: pass
        """

    // One folder for all commands: it takes longer to make than a try.
    @Test("no file of the caller is changed, and no command waits for ever")
    func exchanged() throws {
        let shared = try SharedFolder()
        let before = try shared.state()
        for (words, number) in Self.commands.flatMap({ words in (0..<Self.tries).map { (words, $0) } }) {
            try shared.reset()
            let seed = Sweep.seed.value &+ UInt64(number)
            let attacker = try shared.attack(["python3", "-c", Self.program, "\(shared.home)/private", "\(seed)"])
            defer { attacker.send(SIGKILL) }
            let start = ContinuousClock.now
            let outcome = try shared.run(words)
            let took = ContinuousClock.now - start
            attacker.send(SIGKILL)
            _ = attacker.finish()
            let what: Comment =
                "\(words), try \(number), \(Sweep.seed): \(outcome.status) after \(took): \(outcome.errors)"
            #expect(try shared.state() == before, what)
            #expect(took < .seconds(100) && outcome.status < 128, what)
        }
    }
}
