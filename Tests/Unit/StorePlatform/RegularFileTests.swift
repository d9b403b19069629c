import Foundation
import Testing

@testable import StorePlatform

@Suite struct RegularFileTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("a pipe and a device are not opened, a file and a folder are")
    func kinds() throws {
        let (pipe, file) = (folder.file("pipe"), folder.file("file"))
        #expect(mkfifo(pipe, 0o600) == 0)
        for path in [pipe, "/dev/zero"] {
            for flags in [O_RDONLY, O_RDWR] {
                let (number, refusal) = RegularFile.open(path, flags: flags, mode: 0)
                #expect(number == -1 && errno == EINVAL && refusal == .kind, "\(path)")
            }
        }
        let (number, refusal) = RegularFile.open(file, flags: O_RDWR | O_CREAT, mode: 0o600)
        #expect(number >= 0 && refusal == nil)
        // Nothing of the way in which it was opened stays.
        #expect(fcntl(number, F_GETFL) & O_NONBLOCK == 0)
        #expect(try RegularFile.identity(of: number) == Files.identity(file))
        close(number)
        let directory = RegularFile.open(folder.path, flags: O_RDONLY, mode: 0)
        #expect(directory.number >= 0)
        close(directory.number)
        let missing = RegularFile.open(folder.file("none"), flags: O_RDONLY, mode: 0)
        #expect(missing.number == -1 && errno == ENOENT && missing.refusal == nil)
    }

    #if os(Linux)
        /// `F_SETLEASE`, which Swift does not import.
        private static let setLease: Int32 = 1024

        // Story: the kernel lets an opening wait 45 seconds for the holder of a lease.
        @Test("a lease is waited for, for a bounded time, and named")
        func lease() throws {
            let path = folder.file("file")
            try Data("a".utf8).write(to: URL(fileURLWithPath: path))
            _ = signal(SIGIO, SIG_IGN)
            let holder = open(path, O_RDWR)
            defer { close(holder) }
            try #require(fcntl(holder, Self.setLease, F_WRLCK) == 0)
            let start = ContinuousClock.now
            let (number, refusal) = RegularFile.open(path, flags: O_RDONLY, mode: 0, wait: .milliseconds(100))
            #expect(number == -1 && refusal == .lease)
            #expect(ContinuousClock.now - start < .seconds(3))
            #expect(fcntl(holder, Self.setLease, F_UNLCK) == 0)
            #expect(try FileDescriptor(opening: path, .readOnly, mustBeRegular: true).status().byteCount == 1)
        }

        // Story: `sync run` and `backup list` waited five seconds for each of many objects of another user.
        @Test("leases on many files of a folder are waited for together")
        func manyLeases() throws {
            _ = signal(SIGIO, SIG_IGN)
            let names = (0..<20).map { "leased-\($0)" }
            let holders = try names.map { name in
                #expect(FileManager.default.createFile(atPath: folder.file(name), contents: Data("a".utf8)))
                let holder = open(folder.file(name), O_RDWR)
                try #require(fcntl(holder, Self.setLease, F_WRLCK) == 0)
                return holder
            }
            let waits = LeaseWaits(.milliseconds(400))
            let opened = try OpenFolder(opening: folder.path)
            let start = ContinuousClock.now
            for name in names { #expect(throws: SystemError.self) { try waits.file(name, in: opened) } }
            // Eight seconds if each were waited for alone.
            #expect(ContinuousClock.now - start < .seconds(4))
            for holder in holders { close(holder) }
            #expect(try waits.file(names[0], in: opened) != nil)
        }
    #endif
}
