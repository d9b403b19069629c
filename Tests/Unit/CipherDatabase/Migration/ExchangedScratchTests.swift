import CipherDatabase
import CipherSchema
import Foundation
import Synchronization
import TestKit
import Testing

/// The temporary database of a comparison is in a folder that another user may exchange, if everybody may write in TMPDIR.
@Suite struct ExchangedScratchTests {
    private let folder = TemporaryFolder()

    // Story: the folder was removed by its path, with everything in the private folder that had got its name.
    @Test("a folder that gets the name of the comparison's folder is left alone")
    func exchanged() throws {
        let (victim, away) = (folder.path("mine"), folder.path("away"))
        try FileManager.default.createDirectory(atPath: victim + "/sub", withIntermediateDirectories: true)
        try Data("thesis".utf8).write(to: URL(fileURLWithPath: victim + "/sub/thesis.txt"))
        let exchanged = Mutex<String?>(nil)
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            let file = try String.fetchOne(db, sql: "SELECT file FROM pragma_database_list WHERE name = 'main'") ?? ""
            guard !file.isEmpty else { return }
            let scratch = (file as NSString).deletingLastPathComponent
            #expect(rename(scratch, away) == 0 && rename(victim, scratch) == 0)
            exchanged.withLock { $0 = scratch }
        }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { try $0.execute(sql: "CREATE TABLE t (a)") }
        let queue = DatabaseQueue(configuration: configuration)
        try migrator.migrate(queue)
        #expect(try !queue.read(migrator.hasSchemaChanges))
        let place = try #require(exchanged.withLock { $0 })
        defer { try? FileManager.default.removeItem(atPath: place) }
        #expect(FileManager.default.contents(atPath: place + "/sub/thesis.txt") == Data("thesis".utf8))
        // Its own files are removed wherever their folder is.
        #expect(try FileManager.default.contentsOfDirectory(atPath: away) == [])
    }
}
