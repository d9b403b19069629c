import StorePlatform

/// A file that is read below SQLite, on several threads.
///
/// Closing any descriptor of a live database drops all locks that this process has on it. So one is opened
/// before the first connection of the process, and kept open until after the last is closed.
final class RawFile: Sendable {
    private let descriptor: FileDescriptor
    let path: String

    /// - Throws: `SystemError`.
    init(_ path: String) throws {
        self.path = path
        descriptor = try FileDescriptor(opening: path, .readOnly)
    }

    var byteCount: Int { get throws { try descriptor.status().byteCount } }

    /// Whether the path still names this file.
    var isInPlace: Bool { get throws { try Files.identity(path) == descriptor.status().identity } }

    func bytes(at offset: Int, count: Int) throws -> [UInt8] { try descriptor.read(at: offset, byteCount: count) }

    /// Reads into a buffer and returns how many bytes there were.
    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        let bytes = try descriptor.read(at: offset, byteCount: buffer.count)
        buffer.copyBytes(from: bytes)
        return bytes.count
    }
}
