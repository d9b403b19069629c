import Foundation
import Testing

@testable import StoreBackups

@Suite("Docs/Formats/Replica.md") struct ReplicaDocumentTests {
    private static let document = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        .appending(path: "Docs/Formats/Replica.md")

    private static let constants: [String: Int] = [
        "magic": ReplicaObject.Offset.magic, "version": ReplicaObject.Offset.version,
        "byteOrder": ReplicaObject.Offset.byteOrder, "pageBytes": ReplicaObject.Offset.pageBytes,
        "storeID": ReplicaObject.Offset.storeID, "base": ReplicaObject.Offset.base,
        "segment": ReplicaObject.Offset.segment, "previous": ReplicaObject.Offset.previous,
        "after": ReplicaObject.Offset.after, "until": ReplicaObject.Offset.until, "salt1": ReplicaObject.Offset.salt1,
        "salt2": ReplicaObject.Offset.salt2, "frame": ReplicaObject.Offset.frame,
        "checksum1": ReplicaObject.Offset.checksum1, "checksum2": ReplicaObject.Offset.checksum2,
        "frameCount": ReplicaObject.Offset.frameCount, "pages": ReplicaObject.Offset.pages,
        "groupCount": ReplicaObject.Offset.groupCount, "sidecarBytes": ReplicaObject.Offset.sidecarBytes,
        "packCount": ReplicaObject.Offset.packCount, "gapSince": ReplicaObject.Offset.gapSince,
        "map": ReplicaObject.Offset.map, "body": ReplicaObject.Offset.body,
    ]

    @Test("it tabulates the offsets of replicas as the code has them")
    func offsets() throws {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        var found: [String: Int] = [:]
        for match in text.matches(of: #/\| (\d+) \|[^|]*\| `ReplicaObject\.Offset\.(\w+)` \|/#) {
            found[String(match.2)] = Int(match.1)
        }
        #expect(found == Self.constants)
    }
}
