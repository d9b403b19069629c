@testable import CipherStore
import StorePlatform
import TestKit
import Testing

/// Filesystems on which a shared store is not safe.
@Suite struct FilesystemTests {
    @Test(
        "a shared store refuses a filesystem on which WAL is not safe, and says how to take the risk",
        arguments: [
            (0x6969, "nfs"), (0x6969, "nfs4"), (0xFF53_4D42, "cifs"), (0xFE53_4D42, "smb3"), (0x0102_1997, "9p"),
            (0x6573_5546, "virtiofs"), (0x6573_5546, "fuse.sshfs"), (0x786F_4256, "vboxsf"),
        ])
    func unsafe(magic: UInt64, name: String) {
        let kind = FilesystemKind.judge(magic: magic, typeName: name)
        var config = Configuration()
        let error = #expect(throws: StoreError.self) { try SharedStore.requireSafe(kind, of: "/mnt/share", config) }
        #expect(error?.code == .unsupportedFilesystem)
        for text in ["/mnt/share", name, "risksCorruptionOnUnsafeFilesystem", "silent corruption"] {
            #expect(error?.description.contains(text) == true, "\(text)")
        }
        config.risksCorruptionOnUnsafeFilesystem = true
        #expect(throws: Never.self) { try SharedStore.requireSafe(kind, of: "/mnt/share", config) }
    }

    @Test("local filesystems are taken", arguments: [(0xEF53, "ext4"), (0x5846_5342, "xfs"), (0x0102_1994, "tmpfs")])
    func safe(magic: UInt64, name: String) {
        let kind = FilesystemKind.judge(magic: magic, typeName: name)
        #expect(throws: Never.self) { try SharedStore.requireSafe(kind, of: "/var/lib/app", Configuration()) }
    }

    @Test("the refusal comes before any file is made, for writers and for readers")
    func opening() throws {
        // The files that this machine calls a process's own are no place for a store, whatever its type.
        let path = "/proc/self/app.db"
        #expect(throws: (any Error).self) { try SharedStore.open(at: path, unlockedBy: TestKey.raw(1).source) }
        #expect(try SharedStore.openReadOnly(at: path, unlockedBy: TestKey.raw(1).source) == nil)
    }
}
