import Foundation
@testable import PageFormat
import Testing

@Suite("The head of the wal-index")
struct WALIndexTests {
    /// A database in WAL mode with one reader that stays at the moment before the last two commits, and its files.
    private final class Scene {
        let database = FileManager.default.temporaryDirectory.appending(path: "wal-index-\(UUID().uuidString).db")
        let writer: SystemSQLCipher
        let reader: SystemSQLCipher

        init() throws {
            let pragmas = ["journal_mode = WAL", "wal_autocheckpoint = 0"]
            writer = try SystemSQLCipher(database, keyspec: nil, pragmas: pragmas)
            try writer.run("CREATE TABLE t (a)")
            reader = try SystemSQLCipher(database, keyspec: nil)
            try reader.run("BEGIN; SELECT COUNT(*) FROM t")
        }

        deinit {
            reader.close()
            writer.close()
            for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: database.path + end) }
        }

        func head() throws -> [UInt8] {
            try Array(Data(contentsOf: URL(filePath: database.path + "-shm")).prefix(WALIndex.headerBytes))
        }
    }

    private func index(_ bytes: [UInt8]) -> WALIndex? { bytes.withUnsafeBytes { WALIndex($0) } }

    @Test("SQLite's own head tells frames, pages, salts, and up to where readers use the log")
    func agreesWithSQLite() throws {
        let scene = try Scene()
        let before = try #require(index(try scene.head())).frames
        try scene.writer.run("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
        let head = try #require(index(try scene.head()))
        let log = try DatabaseImage(of: scene.database).log
        let scan = try #require(
            try WALScan.scan(fileBytes: log.count) { offset, buffer in
                let bytes = log[offset..<min(log.count, offset + buffer.count)]
                buffer.copyBytes(from: bytes)
                return bytes.count
            })
        #expect(head.frames == scan.committedFrames && head.frames == before + 2)
        #expect(head.databasePages == scan.databasePages)
        #expect(head.salts == scan.header.salts)
        #expect(head.checkpointedFrames == 0)
        let blocking = (0..<WALIndex.readMarkCount).filter(head.blocksCheckpoints)
        // Marks without a holder stay as they are: only a locked one counts.
        #expect(blocking.map { head.readMarks[$0] }.contains(before))
    }

    @Test("a reader that came when everything was in the file keeps what is committed later from being copied")
    func readerOfTheFile() throws {
        let scene = try Scene()
        try scene.reader.run("COMMIT")
        try scene.writer.run("PRAGMA wal_checkpoint")
        #expect(try #require(index(try scene.head())).blocksCheckpoints(readMark: 0) == false)
        try scene.reader.run("BEGIN; SELECT COUNT(*) FROM t")
        try scene.writer.run("INSERT INTO t VALUES (1); PRAGMA wal_checkpoint")
        let head = try #require(index(try scene.head()))
        #expect(head.blocksCheckpoints(readMark: 0) && head.checkpointedFrames < head.frames)
    }

    @Test("a head that is being written, of another version, or not yet made is not taken")
    func refusals() throws {
        let scene = try Scene()
        let sound = try scene.head()
        #expect(index(sound) != nil)
        for offset in 0..<2 * WALIndex.Offset.copy {
            var torn = sound
            torn[offset] ^= 1
            #expect(index(torn) == nil, "byte \(offset)")
        }
        // Both copies alike and still wrong: the checksum tells.
        var wrong = sound
        wrong[WALIndex.Offset.frames] ^= 1
        wrong[WALIndex.Offset.copy + WALIndex.Offset.frames] ^= 1
        #expect(index(wrong) == nil)
        #expect(index(Array(sound.dropLast())) == nil)
        #expect(index([UInt8](repeating: 0, count: WALIndex.headerBytes)) == nil)
    }
}
