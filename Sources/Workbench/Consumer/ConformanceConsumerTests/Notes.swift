import CipherStore
import Foundation

/// The store of a service, with some rows.
final class Notes: Sendable {
    let path: String
    let key = KeySource.rawKey([UInt8](repeating: 7, count: 32))

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("notes-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.appendingPathComponent("app.db").path
        let store = try SharedStore.open(at: path, unlockedBy: key)
        try store.write { try $0.execute(sql: "CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('hello')") }
        try store.close()
    }

    deinit { try? FileManager.default.removeItem(atPath: (path as NSString).deletingLastPathComponent) }
}
