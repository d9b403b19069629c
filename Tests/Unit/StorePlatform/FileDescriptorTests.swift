import Foundation
import Testing

@testable import StorePlatform

@Suite("Closing large files")
struct FileDescriptorTests {
    let folder: TemporaryFolder
    let path: String
    private let byteCount = 3 * PlatformLimits.bytesFreedAtOnce + 5

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("large")
        try FileDescriptor(opening: path, .readWrite, creating: .always(permissions: 0o600))
            .reserve(byteCount: byteCount)
    }

    @Test("a file without a name is cut before its last descriptor is closed")
    func cut() throws {
        let file = try FileDescriptor(opening: path, .readWrite)
        // The same open file once more: nobody else has it.
        let same = try FileDescriptor(duplicating: file.number, path: path)
        try Files.remove(path)
        file.closeGradually()
        #expect(try same.status().byteCount == 5)
    }

    /// A removed file without any space was cut 8 MB after 8 MB: 8 TB are a million pieces, and a pause after each.
    @Test("a file of holes is closed at once")
    func holes() throws {
        let file = try FileDescriptor(opening: path, .readWrite)
        try file.truncate(toByteCount: 0)
        try file.truncate(toByteCount: 1 << 43)
        let same = try FileDescriptor(duplicating: file.number, path: path)
        try Files.remove(path)
        file.closeGradually()
        #expect(try same.status().byteCount == 1 << 43)
    }

    @Test("a file that somebody else still reads stays whole")
    func shared() throws {
        let file = try FileDescriptor(opening: path, .readWrite)
        let reader = try FileDescriptor(opening: path, .readOnly)
        try Files.remove(path)
        file.closeGradually()
        #expect(try reader.status().byteCount == byteCount)
    }

    @Test("a file that has a name, or another one, stays whole")
    func named() throws {
        let other = folder.file("other")
        try FileManager.default.linkItem(atPath: path, toPath: other)
        try FileDescriptor(opening: path, .readWrite).closeGradually()
        let file = try FileDescriptor(opening: path, .readWrite)
        try Files.remove(path)
        file.closeGradually()
        #expect(try FileDescriptor(opening: other, .readOnly).status().byteCount == byteCount)
    }

    @Test("what is not on the medium yet can be passed on to it at any time")
    func writeback() throws {
        let file = OpenFile(try FileDescriptor(opening: path, .readWrite))
        file.beginWriteback()
        try [UInt8](repeating: 1, count: 4096).withUnsafeBytes { try file.write(at: 0, $0) }
        file.beginWriteback()
        try file.synchronize()
        file.close()
        file.beginWriteback()
        #expect(try FileDescriptor(opening: path, .readOnly).read(at: 0, byteCount: 1) == [1])
    }
}
