import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// The checks of library, connections, secrecy and keys.
struct UseChecks {
    let file: ExaminedFile
    let store: any StoreUnderTest
    let key: UnlockedKey
    /// Nil where the file is no store.
    let sample: Result<SampleStore, any Error>?
    /// The error of an opening that concerns the sidecar.
    var refusal: StoreError?
    let run: ToolRun

    func results() throws -> [CheckResult] {
        var results = [library(), coreImage(), wrongKey(), plainSQLite(), stockSQLCipher()]
        results += try connections()
        results += [try canary(), keySecrecy()]
        return results
    }

    /// Why a check that needs the sample is not made.
    private var noSample: String {
        if case .failure(let error) = sample { return "no sample store could be made: \(error)" }
        return "the file is not a store of this library"
    }

    private var madeSample: SampleStore? { try? sample?.get() }

    // MARK: Library

    private func library() -> CheckResult {
        guard let version = SQLiteLibrary.cipherVersion else {
            return CheckResult(
                .library, .fail, "the library is SQLite \(SQLiteLibrary.sqliteVersion), without encryption",
                remedy: "Link SQLCipher 4.")
        }
        var findings: [String] = []
        if let claimed = store.claimedCipherVersion, !version.hasPrefix(claimed) {
            findings.append("it is SQLCipher \(version), and SQLCipher \(claimed) was claimed")
        }
        let mapped = LoadedLibraries.named(["sqlite3", "sqlcipher"])
        // Two copies in one process drop each other's locks, and either may serve a call that is meant for the other.
        if mapped.count > 1 {
            findings.append("several SQLite libraries are loaded: \(mapped.joined(separator: ", "))")
        }
        return CheckResult(
            .library, findings: findings,
            passing: ["SQLCipher \(version) with SQLite \(SQLiteLibrary.sqliteVersion)"]
                + (mapped.isEmpty ? ["it is part of the program"] : mapped.map { "loaded from \($0)" }),
            remedy: "Link the library that is meant, and no other one.")
    }

    private func coreImage() -> CheckResult {
        CoreImages.ofThisProcess?.result
            ?? CheckResult(.coreImage, .notApplicable, "the system does not show whether it makes core images")
    }

    // MARK: Keys

    private func wrongKey() -> CheckResult {
        guard case .store = file.form else {
            return CheckResult(.wrongKey, .notApplicable, "the file is not a store of this library")
        }
        var evidence: [String] = []
        do {
            let other = UnlockedKey(raw: try DataKey.random())
            _ = try StoreOpening.sidecar(file.path, other) { _ in }
            return CheckResult(.wrongKey, .fail, "another key was accepted", remedy: "Do not use this store.")
        } catch let error as StoreError where error.code == .wrongKey {
            evidence.append("another key is refused: \(error.code.name)")
        } catch {
            return CheckResult(.wrongKey, .fail, "another key is not refused as wrong, but: \(error)")
        }
        guard let sample = madeSample else { return CheckResult(.wrongKey, .pass, evidence + [noSample]) }
        do {
            var files = sample.late
            files["-wal"] = nil
            files[""]?[200] ^= 1
            try SharedStore.open(at: sample.place(files), unlockedBy: sample.source).close()
            return CheckResult(.wrongKey, .fail, evidence + ["a damaged page 1 was not noticed"])
        } catch let error as StoreError where error.code == .wrongKey {
            return CheckResult(.wrongKey, .fail, evidence + ["a damaged page 1 is reported as a wrong key"])
        } catch {
            let name = (error as? StoreError)?.code.name ?? "\(error)"
            return CheckResult(
                .wrongKey, .pass, evidence + ["a damaged page 1 with the right key is reported as \(name)"])
        }
    }

    /// Whether SQLite would make a WAL to read the file, which nothing but a backup or a database at rest lacks. It is
    /// read as a file that does not change then: a check leaves nothing beside it.
    private var isImmutable: Bool {
        if BackupBundle(holding: file.path) != nil { return true }
        if Files.exists(StorePaths(file.path).wal) { return false }
        let decrypted = file.pageKey.flatMap { key in
            try? AuthenticPages(path: file.path, file: file.file, key: key).page(1)?.bytes
        }
        let first = try? decrypted ?? file.file.bytes(at: 0, count: DatabaseHeader.headerBytes)
        guard let first, first.count >= DatabaseHeader.headerBytes else { return false }
        return first[DatabaseHeader.Offset.readVersion] == 2
    }

    private static let locked = "another connection holds the file locked"

    private func plainSQLite() -> CheckResult {
        do {
            let count = try StockConnection.countSchema(of: file.path, key: nil, isImmutable: isImmutable)
            return CheckResult(
                .plainSQLite, .fail,
                "SQLite without a key reads the schema: \(CountText.text(count, "entry", "entries"))",
                remedy: "Everybody who can read the file can read all rows. Encrypt it: cipherctl import")
        } catch  where error.resultCode == .SQLITE_BUSY {
            return CheckResult(.plainSQLite, .notApplicable, Self.locked)
        } catch {
            return CheckResult(.plainSQLite, .pass, "SQLite refuses it: \(error.resultCode)")
        }
    }

    private func stockSQLCipher() -> CheckResult {
        guard let key = file.pageKey else {
            return CheckResult(.stockSQLCipher, .notApplicable, "the file is not encrypted")
        }
        if refusal?.code == .foreignSidecar {
            return CheckResult(
                .stockSQLCipher, .notApplicable, "the sidecar does not belong to the file, whose key is not known")
        }
        if BackupBundle(holding: file.path) != nil {
            return CheckResult(.stockSQLCipher, .notApplicable, "a backup is opened by nothing but this library")
        }
        do {
            let count = try StockConnection.countSchema(of: file.path, key: key, isImmutable: isImmutable)
            return CheckResult(
                .stockSQLCipher, .pass,
                "SQLCipher, given key, salt and header size, reads \(CountText.text(count, "entry", "entries")) of the schema"
            )
        } catch  where error.resultCode == .SQLITE_BUSY {
            return CheckResult(.stockSQLCipher, .notApplicable, Self.locked)
        } catch {
            return CheckResult(
                .stockSQLCipher, .fail, "SQLCipher cannot read it with its key: \(error.resultCode)",
                remedy: "The file is damaged, or not SQLCipher's format: cipherctl verify")
        }
    }

    // MARK: Connections

    private func connections() throws -> [CheckResult] {
        if let own = try ownPool() {
            let whose = "the program's own pool"
            guard let pool = try? own.get() else { return Self.unopened(whose, own) }
            defer { try? pool.close() }
            let settings = file.pageKey?.settings ?? .plaintextHeader
            return PoolChecks(pool: pool, whose: whose, settings: settings).results()
        }
        guard let sample = madeSample else {
            return [.connections, .temporaryFiles].map {
                CheckResult($0, .notApplicable, noSample + ", and no pool was given")
            }
        }
        let whose = "a pool of the library on a sample store"
        let opened = Result<any DatabaseReader, any Error> {
            try SharedStore.open(at: sample.place(sample.late), unlockedBy: sample.source)
        }
        guard let pool = try? opened.get() else { return Self.unopened(whose, opened) }
        defer { try? pool.close() }
        // The sample has pages of the usual size, whatever those of the store are.
        return PoolChecks(pool: pool, whose: whose, settings: .plaintextHeader).results()
    }

    /// The pool of the program; nil when it gives none.
    private func ownPool() throws -> Result<any DatabaseReader, any Error>? {
        do {
            return try store.openPool().map { .success($0) }
        } catch {
            return .failure(error)
        }
    }

    /// The results for a pool that could not be opened: no program can use such a store.
    private static func unopened(_ whose: String, _ pool: Result<any DatabaseReader, any Error>) -> [CheckResult] {
        var reason = ""
        if case .failure(let error) = pool { reason = ": \(error)" }
        return [
            CheckResult(
                .connections, .fail, "\(whose) could not be opened\(reason)",
                remedy: "Let the program open it: remove from prepareDatabase what the error names."),
            CheckResult(.temporaryFiles, .notApplicable, "\(whose) could not be opened"),
        ]
    }

    // MARK: Secrecy

    private func canary() throws -> CheckResult {
        guard let sample = madeSample else { return CheckResult(.canary, .notApplicable, noSample) }
        var findings = sample.filesWithMarker.map { "the sample's file \"\($0)\" holds the marker" }
        var passing = ["no file of a sample store holds the marker that all of its rows have"]
        let marker = Array(SampleStore.marker.utf8)
        for path in store.traces {
            let found = TraceSearch.files(under: path, holding: marker)
            findings += found.map { "\"\($0)\" holds the marker" }
            passing.append("\"\(path)\" does not hold it")
        }
        if ProcessText.contains(marker) { findings.append("arguments or environment of this process hold the marker") }
        if store.allowsCanary {
            let found = try ownMarker(marker)
            findings += found.map { "\"\($0)\" holds the marker" }
            passing.append("no file of the store held it while it was written and removed there")
        }
        return CheckResult(
            .canary, findings: findings, passing: passing,
            remedy: "Find out what writes content there, and turn it off.")
    }

    /// Writes the marker into the store itself, and removes it.
    private func ownMarker(_ marker: [UInt8]) throws -> [String] {
        let own = try StoreOpening.writable(file.path, key) { _ in }
        defer { try? own.close() }
        let table = "conformance_canary"
        try own.write { db in
            try db.execute(sql: "CREATE TABLE \(table) (text TEXT UNIQUE)")
            try db.execute(sql: "INSERT INTO \(table) VALUES (?)", arguments: [SampleStore.marker])
        }
        defer { try? own.write { try $0.execute(sql: "DROP TABLE \(table)") } }
        let name = Files.name(of: file.path)
        let directory = Files.directory(of: file.path)
        return try Files.names(inDirectory: directory).filter { $0.hasPrefix(name) }.flatMap {
            TraceSearch.files(under: "\(directory)/\($0)", holding: marker)
        }
    }

    private func keySecrecy() -> CheckResult {
        var findings: [String] = []
        var passing: [String] = []
        if key.secret.withBytes({ ProcessText.contains(Array($0)) }) {
            findings.append("arguments or environment of this process hold the key that was given")
        } else {
            passing.append("arguments and environment of this process do not hold the key that was given")
        }
        if let sample = madeSample {
            let texts = sample.trace + errorTexts(of: sample)
            let needles =
                (try? KeyForms.all(of: [sample.rawKey, sample.pageKey().dataKey.withBytes { Array($0) }])) ?? []
            let leaks = texts.filter { text in needles.contains { Array(text.utf8).contains(subsequence: $0) } }
            if !leaks.isEmpty { findings.append("\(leaks.count) traces or errors hold the key of the sample store") }
            passing.append(
                "\(CountText.text(sample.trace.count, "traced statement")) and \(CountText.text(texts.count - sample.trace.count, "error")): none holds the key"
            )
        }
        return CheckResult(
            .keySecrecy, findings: findings, passing: passing,
            remedy: "Give the key by a file, a descriptor or a credential: never as an argument, a variable or SQL.")
    }

    /// The texts of the errors of a wrong key, a damaged page and wrong SQL.
    private func errorTexts(of sample: SampleStore) -> [String] {
        var texts: [String] = []
        func take(_ body: () throws -> Void) {
            do { try body() } catch { texts.append("\(error) \(String(reflecting: error))") }
        }
        take {
            try SharedStore.open(at: sample.place(sample.late), unlockedBy: .rawKey(SystemRandom.bytes(32))).close()
        }
        take {
            var files = sample.late
            files[""]?[200] ^= 1
            files["-wal"] = nil
            try SharedStore.open(at: sample.place(files), unlockedBy: sample.source).close()
        }
        take {
            let store = try SharedStore.open(at: sample.place(sample.late), unlockedBy: sample.source)
            defer { try? store.close() }
            try store.read { try $0.execute(sql: "SELECT * FROM nothing") }
        }
        return texts
    }
}

/// The forms in which a key may appear in a text.
private enum KeyForms {
    static func all(of keys: [[UInt8]]) -> [[UInt8]] {
        keys.flatMap { key -> [[UInt8]] in
            let hex = Hex.text(key)
            let base64 = Data(key).base64EncodedString()
            return [key, Array(hex.utf8), Array(hex.uppercased().utf8), Array(base64.utf8)]
        }
    }
}

/// The libraries that the process has loaded.
private enum LoadedLibraries {
    /// The paths whose names begin with `lib` and one of these words.
    static func named(_ words: [String]) -> [String] {
        let maps = (try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8)) ?? ""
        let paths = maps.split(separator: "\n").compactMap { line in
            line.firstIndex(of: "/").map { String(line[$0...]) }
        }
        return Set(paths).filter { path in
            let name = Files.name(of: path)
            return name.contains(".so") && words.contains { name.hasPrefix("lib" + $0) }
        }.sorted()
    }
}

/// Arguments and environment of this process, as every process of the user can read them.
private enum ProcessText {
    static func contains(_ bytes: [UInt8]) -> Bool {
        guard !bytes.isEmpty else { return false }
        return ["cmdline", "environ"].contains { name in
            ((try? Data(contentsOf: URL(fileURLWithPath: "/proc/self/\(name)"))) ?? Data()).range(of: Data(bytes))
                != nil
        }
    }
}
