/// A published bug of the libraries below, with the affected versions.
///
/// Only the version that the library reports is compared. A distribution may have fixed an old version without a new
/// number, so each is a note, and never makes a store unsound by itself.
package struct KnownBug: Equatable, Sendable {
    enum Library: Equatable, Sendable {
        case sqlite
        case sqlCipher
    }

    let library: Library
    package let name: String
    /// The first affected version; nil when all before ``fixedIn`` may be.
    let since: Version?
    package let fixedIn: Version
    /// Its effect and its conditions.
    package let what: String
    /// Where it is documented.
    let source: String

    /// A version as its numbers; the rest of the text is ignored.
    package struct Version: Comparable, ExpressibleByStringLiteral, CustomStringConvertible, Sendable {
        package let numbers: [Int]

        package init(_ text: String) {
            numbers = text.prefix { $0.isNumber || $0 == "." }.split(separator: ".").compactMap { Int($0) }
        }

        package init(stringLiteral text: String) { self.init(text) }

        package static func < (left: Version, right: Version) -> Bool {
            left.numbers.lexicographicallyPrecedes(right.numbers)
        }

        package var description: String { numbers.map(String.init).joined(separator: ".") }
    }

    func affects(_ version: Version) -> Bool { version < fixedIn && since.map { version >= $0 } ?? true }

    /// The bugs of a process's libraries, by their versions.
    package static func affecting(sqlite: String, sqlCipher: String?) -> [KnownBug] {
        all.filter { bug in
            switch bug.library {
            case .sqlite: bug.affects(Version(sqlite))
            case .sqlCipher: sqlCipher.map { bug.affects(Version($0)) } ?? false
            }
        }
    }

    var finding: Finding {
        let library = library == .sqlite ? "SQLite" : "SQLCipher"
        return Finding(
            .note, name, "\(name), \(library) before \(fixedIn): \(what) (\(source))",
            remedy: "update the library, or check whether your distribution has fixed its version"
                + (name == "WAL-reset"
                    ? ". On Debian, `make setup SQLCIPHER=newest` in the sources of CipherStore builds the newest one"
                    : ""))
    }

    // MARK: The table

    static let all: [KnownBug] = [
        KnownBug(
            library: .sqlite, name: "WAL-reset", since: "3.7.0", fixedIn: "3.51.3",
            what:
                "a commit that restarts the WAL during another process's checkpoint can lose pages; CipherStore's own "
                + "checkpoints avoid it, other programs that write to the store should set wal_autocheckpoint = 0",
            source: "https://www.sqlite.org/wal.html#walresetbug"),
        KnownBug(
            library: .sqlite, name: "CVE-2025-6965", since: nil, fixedIn: "3.50.2",
            what: "a statement with more aggregate terms than columns corrupts memory; it requires SQL from an "
                + "attacker",
            source: "https://nvd.nist.gov/vuln/detail/CVE-2025-6965"),
        KnownBug(
            library: .sqlite, name: "CVE-2025-29087", since: "3.44.0", fixedIn: "3.49.1",
            what:
                "concat_ws() with a very long separator writes beyond its buffer; connections of CipherStore replace the "
                + "function, other programs do not",
            source: "https://nvd.nist.gov/vuln/detail/CVE-2025-29087"),
        KnownBug(
            library: .sqlite, name: "CVE-2025-7458", since: "3.39.2", fixedIn: "3.41.2",
            what: "a very long ORDER BY overflows an integer; it requires SQL from an attacker",
            source: "https://nvd.nist.gov/vuln/detail/CVE-2025-7458"),
        KnownBug(
            library: .sqlite, name: "CVE-2025-7709", since: "3.43.0", fixedIn: "3.50.3",
            what:
                "a crafted FTS5 table corrupts memory when it is searched or checked; import, adopt and salvage refuse such "
                + "a table, and verify reports it",
            source: "https://nvd.nist.gov/vuln/detail/CVE-2025-7709"),
        KnownBug(
            library: .sqlite, name: "CVE-2026-11822", since: nil, fixedIn: "3.53.2",
            what: "a crafted FTS5 table corrupts memory when it is searched; it requires a writer who has the key, "
                + "since pages are authenticated, or a database of an attacker that was imported",
            source: "https://www.cve.org/CVERecord?id=CVE-2026-11822"),
        KnownBug(
            library: .sqlite, name: "CVE-2026-11824", since: nil, fixedIn: "3.53.2",
            what:
                "a crafted FTS5 table overflows a buffer when it is searched; it requires a writer who has the key, "
                + "since pages are authenticated, or a database of an attacker that was imported",
            source: "https://www.cve.org/CVERecord?id=CVE-2026-11824"),
        KnownBug(
            library: .sqlCipher, name: "CVE-2020-27207", since: "4.0.0", fixedIn: "4.4.1",
            what: "certain cipher pragmas use memory after it was freed; it requires SQL from an attacker",
            source: "https://nvd.nist.gov/vuln/detail/CVE-2020-27207"),
    ]
}
