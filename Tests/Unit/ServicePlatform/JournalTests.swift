import Foundation
import ServicePlatform
import StorePlatform
import TestKit
import Testing

@Suite("Messages to the journal")
struct JournalTests {
    @Test("a value with a line end has its length before it, and no value can begin another field")
    func datagram() {
        let bytes = Journal.datagram([("MESSAGE", "a=b"), ("TEXT", "x\nPRIORITY=0"), ("EMPTY", "")])
        var expected = Array("MESSAGE=a=b\nTEXT\n".utf8) + [12, 0, 0, 0, 0, 0, 0, 0]
        expected += Array("x\nPRIORITY=0\nEMPTY=\n".utf8)
        #expect(bytes == expected)
        let long = Journal.datagram([("MESSAGE", String(repeating: "m", count: 1 << 20)), ("PRIORITY", "3")])
        #expect(long.count < ServiceLimits.journalBytes + 100 && long.suffix(10) == Array("PRIORITY=\n".utf8)[...])
    }

    @Test("an output goes to the journal if device and inode are those that systemd names")
    func stream() throws {
        let pipe = Pipe()
        var found = stat()
        let number = pipe.fileHandleForWriting.fileDescriptor
        try #require(fstat(number, &found) == 0)
        let name = "\(found.st_dev):\(found.st_ino)"
        #expect(Journal.receives(number, variable: Array(name.utf8)))
        #expect(!Journal.receives(number, variable: Array((name + "1").utf8)))
        #expect(!Journal.receives(number, variable: nil) && !Journal.receives(number, variable: []))
    }

    @Test("a message arrives at the socket; without one it is an error")
    func sending() throws {
        let folder = TemporaryFolder()
        let path = folder.path("journal")
        #expect(throws: SystemError.self) { try Journal(path: path).send("m", .error, []) }
        let receiver = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(receiver) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let isBound = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(receiver, $0, size) == 0 }
        }
        try #require(isBound)
        try Journal(path: path).send("a message", .warning, [("CIPHERSTORE_STORE", "/a.db")])
        var bytes = [UInt8](repeating: 0, count: 1000)
        let count = recv(receiver, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        #expect(
            String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
                == "MESSAGE=a message\nPRIORITY=4\nSYSLOG_IDENTIFIER=cipherctl\nCIPHERSTORE_STORE=/a.db\n")
        #expect(throws: SystemError.self) {
            try Journal(path: String(repeating: "p", count: 200)).send("m", .error, [])
        }
    }
}
