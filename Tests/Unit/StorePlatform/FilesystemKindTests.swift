import Foundation
import Testing

@testable import StorePlatform

@Suite("Filesystem types")
struct FilesystemKindTests {
    @Test(
        "filesystems on which WAL is unsafe are known by their number",
        arguments: [
            (0x6969, "nfs"), (0x517B, "smb"), (0xFF53_4D42, "cifs"), (0xFE53_4D42, "smb2"), (0x0102_1997, "9p"),
            (0x6573_5546, "fuse"), (0x00C3_6400, "ceph"), (0x0BD0_0BD0, "lustre"), (0x786F_4256, "vboxsf"),
            (0x5346_414F, "afs"), (0x0116_1970, "gfs2"),
        ])
    func unsafe(magic: Int, name: String) {
        let kind = FilesystemKind.judge(magic: UInt64(magic), typeName: nil)
        #expect(kind == FilesystemKind(name: name, isSafeForSharedWAL: false, isKnown: true))
    }

    @Test("virtiofs and FUSE share a number and are named by the mount table")
    func fuse() {
        #expect(FilesystemKind.judge(magic: 0x6573_5546, typeName: "virtiofs").name == "virtiofs")
        let sshfs = FilesystemKind.judge(magic: 0x6573_5546, typeName: "fuse.sshfs")
        #expect(sshfs.name == "fuse.sshfs" && !sshfs.isSafeForSharedWAL)
    }

    @Test("a type is refused by its name where there is no number", arguments: ["nfs", "smbfs", "webdav", "nfs4"])
    func unsafeName(name: String) { #expect(!FilesystemKind.judge(magic: 0, typeName: name).isSafeForSharedWAL) }

    @Test(
        "local filesystems are safe",
        arguments: [0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0xF2F5_2010, 0x0102_1994, 0x794C_7630])
    func safe(magic: Int) {
        let kind = FilesystemKind.judge(magic: UInt64(magic), typeName: nil)
        #expect(kind.isSafeForSharedWAL && kind.isKnown)
    }

    @Test("a type that nobody has heard of is allowed and named")
    func unknown() {
        let kind = FilesystemKind.judge(magic: 0x1234_ABCD, typeName: nil)
        #expect(kind == FilesystemKind(name: "type 0x1234abcd", isSafeForSharedWAL: true, isKnown: false))
        #expect(FilesystemKind.judge(magic: 0x1234_ABCD, typeName: "newfs").name == "newfs")
        #expect(FilesystemKind.judge(magic: 0x1A, typeName: "apfs").isKnown)
    }

    @Test("the filesystem of a file that does not exist yet is its folder's")
    func missingFile() throws {
        let folder = try TemporaryFolder()
        let kind = try FilesystemKind.of(folder.file("app.db"))
        #expect(try kind == FilesystemKind.of(folder.path))
        #expect(!kind.name.isEmpty)
        #expect(try FilesystemKind.of("/proc").name == "proc")
        #expect(throws: SystemError.self) { try FilesystemKind.of("/no/such/folder/at/all/app.db") }
    }

    @Test("the mount table is read by device, behind any number of optional fields")
    func mountTable() {
        let table = """
            23 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw
            36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue
            40 35 0:44 / /data rw - fuse.sshfs host:/ rw
            broken line - x
            """
        #expect(MountTable.typeName(ofDevice: "98:0", in: table) == "ext3")
        #expect(MountTable.typeName(ofDevice: "0:44", in: table) == "fuse.sshfs")
        #expect(MountTable.typeName(ofDevice: "0:99", in: table) == nil)
    }
}
