import Foundation
import Testing

@testable import StorePlatform

@Suite("The system's table of locks")
struct SystemLocksTests {
    private static let table = """
        1: POSIX  ADVISORY  WRITE 4711 08:01:131099 120 120
        2: POSIX  ADVISORY  READ 4712 08:01:131099 124 124
        2: -> POSIX  ADVISORY  WRITE 4713 08:01:131099 124 124
        3: OFDLCK ADVISORY  WRITE -1 08:01:131099 16 16
        4: FLOCK  ADVISORY  WRITE 4714 08:01:131099 0 EOF
        5: POSIX  ADVISORY  WRITE 4715 08:02:131099 0 EOF
        6: POSIX  ADVISORY  WRITE 4716 08:01:131098 0 EOF
        7: POSIX  ADVISORY  READ 4717 08:01:131099 1073741826 EOF
        8: POSIX  ADVISORY  READ x 08:01:131099 9 8
        9: LEASE  ACTIVE    WRITE 4718 08:01:131099 0 EOF
        10: LEASE  BREAKING  READ 4719 08:01:131098 0 EOF
        """

    private func locks(_ device: SystemLocks.Device?, _ kind: SystemLocks.Kind = .posix) -> [SystemLocks.Lock] {
        SystemLocks.parse(Array(Self.table.utf8), kind, inode: 131_099, device)
    }

    @Test("the POSIX locks of one file are read, with process and bytes; those who wait hold nothing")
    func parsing() {
        let found = locks(.init(major: 8, minor: 1))
        #expect(found.map(\.process) == [4711, 4712, 4717])
        #expect(found.map(\.kind) == [.exclusive, .shared, .shared])
        #expect(found.map(\.bytes) == [120...120, 124...124, 1_073_741_826...Int64.max])
    }

    @Test("a lease on one file is read, with its process")
    func leases() {
        let found = locks(.init(major: 8, minor: 1), .lease)
        #expect(found == [.init(kind: .exclusive, process: 4718, bytes: 0...Int64.max)])
    }

    @Test("where devices are told in two ways, the inode alone counts")
    func withoutDevice() { #expect(locks(nil).map(\.process) == [4711, 4712, 4715, 4717]) }

    @Test("a lock of this process on a real file is found, and gone when it is given back")
    func realLock() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("locked")
        #expect(FileManager.default.createFile(atPath: path, contents: Data([0])))
        guard let none = try SystemLocks.posixLocks(on: path) else { return }
        #expect(none.isEmpty)
        let descriptor = open(path, O_RDWR)
        defer { close(descriptor) }
        var range = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 120, l_len: 2, l_pid: 0)
        #expect(fcntl(descriptor, F_SETLK, &range) == 0)
        let held = try #require(try SystemLocks.posixLocks(on: path))
        #expect(held == [.init(kind: .exclusive, process: getpid(), bytes: 120...121)])
        range.l_type = Int16(F_UNLCK)
        #expect(fcntl(descriptor, F_SETLK, &range) == 0)
        #expect(try SystemLocks.posixLocks(on: path)?.isEmpty == true)
        #expect(try SystemLocks.posixLocks(on: folder.file("missing")) == nil)
    }
}
