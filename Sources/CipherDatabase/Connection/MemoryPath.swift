import Foundation
import StorePlatform

/// The paths that stand for databases without a file.
package enum MemoryPath {
    /// A database in memory that is private to one connection.
    package static let own = ":memory:"

    /// A database in memory that all connections of the process with this name share.
    ///
    /// - SeeAlso: <https://www.sqlite.org/inmemorydb.html>
    static func shared(named name: String) -> String {
        "file:/\(name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? name)?vfs=memdb"
    }

    /// The URI by which SQLite opens a file that cannot change.
    static func immutable(_ path: String) -> String {
        // Each byte on its own: a path is bytes to SQLite, and `?`, `#` and `%` have a meaning in a URI.
        let digits = Array("0123456789abcdef".utf8)
        var address = Array("file:".utf8)
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                address.append(byte)
            default: address += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: address, as: UTF8.self) + "?immutable=1"
    }

    /// Whether a path names a database without a file; an empty path does too.
    package static func names(_ path: String) -> Bool { path.isEmpty || path == own || isURI(path) }

    /// The path of a file, independent of the current directory; a path that names a database without a file as it is.
    ///
    /// Connections are opened long after their database: a process may have called `chdir` in between.
    static func absolute(_ path: String) -> String { names(path) ? path : Files.absolute(path) }

    /// Whether a path is the URI of a database in memory. URIs of files are taken as file names.
    static func isURI(_ path: String) -> Bool {
        guard path.hasPrefix("file:") else { return false }
        if path == "file::memory:" || path.hasPrefix("file::memory:?") { return true }
        let settings = path.drop { $0 != "?" }.dropFirst().split(separator: "&")
        return settings.contains("mode=memory") || settings.contains("vfs=memdb")
    }
}
