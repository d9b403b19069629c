import Foundation
@testable import PageFormat
import StoreCrypto
import Testing

/// One way to make a database with the system's library.
struct DatabaseForm: Sendable, CustomTestStringConvertible {
    var settings: CipherSettings
    var journal: String

    var testDescription: String {
        "\(settings.pageBytes) bytes, header \(settings.plaintextHeaderBytes), \(settings.hmacHash), \(journal)"
    }

    var pragmas: [String] {
        var pragmas: [String] = []
        if settings.kdfHash == .sha1 { pragmas.append("cipher_compatibility = 3") }
        pragmas.append("cipher_page_size = \(settings.pageBytes)")
        if settings.plaintextHeaderBytes > 0 {
            pragmas.append("cipher_plaintext_header_size = \(settings.plaintextHeaderBytes)")
        }
        if settings.hmacHash != .sha512 {
            pragmas.append("cipher_hmac_algorithm = HMAC_\(settings.hmacHash.rawValue.uppercased())")
        }
        return pragmas
    }

    /// SQLite needs 480 usable bytes, so pages of 512 bytes leave no room for a reserve.
    static let all: [DatabaseForm] = {
        let pageSizes = (10...16).map { 1 << $0 }
        var forms = pageSizes.flatMap { pageBytes in
            [0, 32].flatMap { header in
                ["WAL", "DELETE"].map { journal in
                    let settings = CipherSettings(pageBytes: pageBytes, plaintextHeaderBytes: header)
                    return DatabaseForm(settings: settings, journal: journal)
                }
            }
        }
        for hash in [HashAlgorithm.sha256, .sha1] {
            forms.append(
                DatabaseForm(settings: CipherSettings(plaintextHeaderBytes: 32, hmacHash: hash), journal: "WAL"))
        }
        forms.append(DatabaseForm(settings: .sqlCipher3, journal: "WAL"))
        return forms
    }()

    func open(_ file: URL) throws -> SystemSQLCipher {
        try SystemSQLCipher(file, keyspec: TestKey.keyspec, pragmas: pragmas)
    }
}

@Suite("Files of the system's SQLCipher")
struct DifferentialTests {
    /// Fills a database with tables, an index and overflow pages; with WAL the last commits stay in the log, followed
    /// by frames of a transaction that is still open.
    private func fill(_ database: SystemSQLCipher, _ form: DatabaseForm) throws {
        var generator = SeededGenerator(form.testDescription)
        try database.run("PRAGMA journal_mode = \(form.journal); PRAGMA wal_autocheckpoint = 0")
        try database.run("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, content BLOB)")
        try database.run("CREATE INDEX item_name ON item(name)")
        for round in 0..<3 {
            try database.run("BEGIN")
            for _ in 0..<40 {
                let length = Int.random(in: 0...(Bool.random(using: &generator) ? 200 : 9000), using: &generator)
                let name = String(UInt64.random(in: 0...UInt64.max, using: &generator), radix: 36)
                try database.run(
                    "INSERT INTO item(name, content) VALUES ('\(name)', x'\(generator.bytes(length).hex)')")
            }
            try database.run("DELETE FROM item WHERE id % 7 = \(round)")
            try database.run("COMMIT")
            if round == 0 { try database.run("PRAGMA wal_checkpoint(PASSIVE)") }
        }
    }

    /// Writes the database that SQLite sees, without encryption, and dumps it.
    private func dumpDecrypted(_ image: DatabaseImage, _ keys: borrowing PageKeys, into plain: URL) throws -> [[String]]
    {
        var codec = try PageCodec(keys: keys)
        let pageBytes = codec.layout.pageBytes
        let log = try WALScan.scan(image.log)
        let inWAL = log.map { $0.committedFrames > 0 ? $0.databasePages : nil } ?? nil
        let pageCount = inWAL ?? UInt32(image.main.count / pageBytes)
        var decrypted: [UInt8] = []
        for number in 1...pageCount {
            let page: [UInt8]
            if let log, let frame = log.lastFrames[number] {
                page = Array(image.log[log.pageOffset(ofFrame: frame)...].prefix(pageBytes))
            } else {
                page = Array(image.main[(Int(number) - 1) * pageBytes..<Int(number) * pageBytes])
            }
            let verifies = codec.verifies(page, number)
            #expect(verifies, "page \(number)")
            decrypted += try codec.decrypted(page, number)
        }
        // Without a log beside it, the copy must not claim to need one.
        decrypted.replaceSubrange(18...19, with: [1, 1])
        try decrypted.write(to: plain)
        let reader = try SystemSQLCipher(plain, keyspec: nil)
        #expect(try reader.value("PRAGMA integrity_check") == "ok")
        return try reader.dump()
    }

    @Test("every page verifies and decrypts to what SQLite sees", arguments: DatabaseForm.all)
    func decryptsWholeDatabases(form: DatabaseForm) throws {
        let folder = try TemporaryFolder()
        let file = folder.file("original.db")
        let writer = try form.open(file)
        try fill(writer, form)
        let seen = try writer.dump()
        // A cache of a few pages spills the open transaction into the log before it is committed.
        try writer.run("PRAGMA cache_size = 5; BEGIN; INSERT INTO item(content) VALUES (randomblob(2000000))")
        let image = try DatabaseImage(of: file)
        try writer.run("ROLLBACK")

        let keys = try TestKey.keys(form.settings)
        if form.journal == "WAL" {
            let log = try #require(try WALScan.scan(image.log))
            #expect(log.committedFrames > 0)
            #expect(log.uncommittedFrames > 0)
            let frames = try PageScan.verifyFrames(
                keys: keys, of: log, workers: 2, read: { image.log.read($0, $1) })
            #expect(frames.isClean)
            #expect(try dumpDecrypted(image, keys, into: folder.file("plain.db")) == seen)
        } else {
            // The open transaction has spilled into the main file, so a later image is the one to compare.
            let settled = try DatabaseImage(of: file)
            #expect(try dumpDecrypted(settled, keys, into: folder.file("plain.db")) == seen)
            let pages = UInt32(settled.main.count / form.settings.pageBytes)
            let report = try PageScan.verifyPages(
                keys: keys, pageCount: pages, workers: 2, read: { settled.main.read($0, $1) })
            #expect(report.isClean)
        }
        checkVerdict(image.main, form)
    }

    private func checkVerdict(_ main: [UInt8], _ form: DatabaseForm) {
        switch DatabaseHeader.examine(Array(main.prefix(4096)), fileBytes: main.count, settings: form.settings) {
        case .plaintextHeader(let header):
            #expect(form.settings.plaintextHeaderBytes == 32)
            #expect(header.pageBytes == form.settings.pageBytes)
            #expect(header.journalMode == (form.journal == "WAL" ? .writeAheadLog : .rollback))
        case .opaque(let traits):
            #expect(form.settings.plaintextHeaderBytes == 0)
            #expect(traits.mayBeStandardSQLCipher && traits.isWholePages)
            #expect(Array(main[..<16]) == TestKey.salt)
        case let verdict: Issue.record("\(verdict)")
        }
    }

    @Test("a database encrypted here opens in SQLCipher", arguments: DatabaseForm.all)
    func opensInSQLCipher(form: DatabaseForm) throws {
        let folder = try TemporaryFolder()
        let plain = folder.file("plain.db")
        let source = try SystemSQLCipher(plain, keyspec: nil, pragmas: ["page_size = \(form.settings.pageBytes)"])
        // The reserve of a database can only be set by a file control, and for a new one that is enough. VACUUM, which
        // applies it to others, fails in SQLCipher 4.19: a plain database with a reserve cannot attach another there
        // (SQLITE_MISUSE, "sqlcipherCodecAttach: no key").
        try source.reserve(bytes: form.settings.reservedBytes)
        try fill(source, form)
        let seen = try source.dump()
        source.close()
        let plainBytes = try [UInt8](contentsOf: plain)
        try #require(Int(plainBytes[20]) == form.settings.reservedBytes)
        var codec = try PageCodec(keys: TestKey.keys(form.settings))
        var encrypted: [UInt8] = []
        let pageBytes = form.settings.pageBytes
        for number in 1...UInt32(plainBytes.count / pageBytes) {
            let page = Array(plainBytes[(Int(number) - 1) * pageBytes..<Int(number) * pageBytes])
            encrypted += try codec.encrypted(page, number)
        }
        let target = folder.file("encrypted.db")
        try encrypted.write(to: target)
        let reader = try form.open(target)
        #expect(try reader.dump() == seen)
        #expect(try reader.value("PRAGMA integrity_check") == "ok")
        #expect(try reader.rows("PRAGMA cipher_integrity_check").isEmpty)
        try reader.run("INSERT INTO item(name) VALUES ('a follow-up write')")
    }

    @Test("a damaged log holds the same commits here as in SQLite's recovery")
    func agreesWithRecovery() throws {
        let form = DatabaseForm(settings: CipherSettings(pageBytes: 1024, plaintextHeaderBytes: 32), journal: "WAL")
        let folder = try TemporaryFolder()
        let writer = try form.open(folder.file("original.db"))
        try writer.run("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(a)")
        // A log that was restarted: frames of its first run follow those of the second.
        for _ in 0..<12 { try writer.run("INSERT INTO t VALUES (randomblob(3000))") }
        try writer.run("PRAGMA wal_checkpoint(PASSIVE)")
        for _ in 0..<4 { try writer.run("INSERT INTO t VALUES (randomblob(700))") }
        let image = try DatabaseImage(of: folder.file("original.db"))
        var generator = SeededGenerator("damaged logs")
        var counts: Set<UInt32> = []
        for round in 0..<150 {
            var damaged = image
            if round > 0 {
                // Mostly within the present run, where it matters.
                let reach = Bool.random(using: &generator) ? 12_000 : damaged.log.count
                let offset = Int.random(in: 0..<min(reach, damaged.log.count), using: &generator)
                damaged.log = damaged.log.flipping(offset, by: UInt8.random(in: 1...255, using: &generator))
                if round % 5 == 0 { damaged.log = Array(damaged.log.prefix(offset)) }
            }
            let copy = folder.file("copy-\(round).db")
            try damaged.write(to: copy)
            let scan = try WALScan.scan(damaged.log)
            let reader = try form.open(copy)
            let pages = try reader.value("PRAGMA page_count")
            // Busy, frames in the log, frames checkpointed.
            let recovered = try reader.rows("PRAGMA wal_checkpoint(PASSIVE)")[0][1]
            let committed = scan?.committedFrames ?? 0
            counts.insert(committed)
            #expect(recovered == String(committed), "round \(round)")
            if committed > 0 { #expect(pages == scan.map { String($0.databasePages) }) }
        }
        #expect(counts.count > 2, "the damage reached several commits")
    }

    @Test("a zeroed page of an auto-vacuum database passes SQLCipher and integrity_check, and is named here")
    func namesZeroedPages() throws {
        // In auto-vacuum databases SQLCipher takes a page of zeros for one behind the end of the file and checks
        // nothing, so that content can be blanked out without the key.
        let form = DatabaseForm(settings: .plaintextHeader, journal: "DELETE")
        let folder = try TemporaryFolder()
        let file = folder.file("original.db")
        let writer = try form.open(file)
        try writer.run("PRAGMA auto_vacuum = FULL; CREATE TABLE t(a BLOB); INSERT INTO t VALUES (randomblob(7000))")
        writer.close()
        var image = try DatabaseImage(of: file)
        let pages = image.main.count / 4096
        image.main.replaceSubrange((pages - 1) * 4096..<pages * 4096, with: [UInt8](repeating: 0, count: 4096))
        let main = image.main
        let copy = folder.file("copy.db")
        try image.write(to: copy)
        let reader = try form.open(copy)
        #expect(try reader.value("PRAGMA integrity_check") == "ok")
        #expect(try reader.value("SELECT length(a) FROM t") == "7000")
        let report = try PageScan.verifyPages(
            keys: TestKey.keys(form.settings), pageCount: UInt32(pages), workers: 1,
            read: { main.read($0, $1) })
        #expect(report.zero == [UInt32(pages)])
        #expect(!report.isClean)
    }
}
