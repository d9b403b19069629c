#if DEBUG
    import CipherStore
    import Foundation
    import StorePlatform
    import TestKit
    import Testing

    /// The folder of a store exchanged for a link to another one while a store in it is destroyed or restored: a member of
    /// the group of the folder above may do that.
    @Suite("The folder of a store whose name another one gets")
    struct SwappedFolderTests {
        private let folder = TemporaryFolder()

        /// Runs in a process of its own, because a step is chosen for the whole process.
        private static func exchange(_ root: String) {
            rename(root + "/sub", root + "/away")
            symlink(root + "/private", root + "/sub")
        }

        private func prepare() throws -> String {
            for name in ["sub", "private"] {
                try Files.makeDirectory(folder.path(name))
                let store = try SharedStore.open(at: folder.path(name) + "/app.db", unlockedBy: TestKeys.source("raw"))
                try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
                try store.close()
            }
            return folder.url.path
        }

        private func content() throws -> [String: Data] {
            let path = folder.path("private")
            return try Files.names(inDirectory: path).reduce(into: [:]) { content, name in
                content[name] = try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)"))
            }
        }

        // The files of the store in the other folder were removed one by one.
        @Test("a destruction removes nothing in the other folder", .timeLimit(.minutes(3)))
        func destruction() async throws {
            let root = try prepare()
            let before = try content()
            await #expect(processExitsWith: .success) { [root = root as String] in
                CrashPoint.choose(.destroyRenamed) { Self.exchange(root) }
                _ = try? SharedStore.destroy(at: root + "/sub/app.db")
            }
            #expect(try content() == before)
            #expect(try !Files.names(inDirectory: root + "/away").contains("app.db-sidecar"))
        }

        @Test("a restoration that replaces removes nothing in the other folder", .timeLimit(.minutes(3)))
        func restoration() async throws {
            let root = try prepare()
            let store = try SharedStore.open(at: root + "/sub/app.db", unlockedBy: TestKeys.source("raw"))
            try store.backup(toFolder: root + "/backup")
            try store.close()
            let before = try content()
            await #expect(processExitsWith: .success) { [root = root as String] in
                CrashPoint.choose(.restoreFormerKept) { Self.exchange(root) }
                _ = try? SharedStore.restore(
                    from: root + "/backup", to: root + "/sub/app.db", unlockedBy: TestKeys.source("raw"),
                    replacing: true)
            }
            #expect(try content() == before)
        }
    }
#endif
