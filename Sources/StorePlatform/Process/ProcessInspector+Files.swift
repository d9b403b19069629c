#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessInspector {
    /// An open file of a process.
    package struct Opening: Hashable, Sendable {
        package let process: Int32
        /// The number of the descriptor there.
        package let descriptor: String
    }

    /// The other processes that have a file open, as far as this one may see them; none where the system has no `/proc`.
    ///
    /// It finds what no lock shows: a connection in rollback mode that is idle holds none.
    package static func others(using path: String) -> [Int32] {
        Set(openings(of: path).map(\.process)).filter { $0 != currentProcess }.sorted()
    }

    /// Where a file is open, as far as this process may see it; nowhere where the system has no `/proc`.
    package static func openings(of path: String) -> [Opening] {
        guard let identity = (try? Files.identity(path)) ?? nil else { return [] }
        let name = "/" + Files.name(of: path)
        let processes = ((try? Files.names(inDirectory: "/proc")) ?? []).compactMap { Int32($0) }
        return processes.flatMap { openings(of: identity, named: name, in: $0) }
    }

    private static func openings(of identity: FileIdentity, named name: String, in process: Int32) -> [Opening] {
        let folder = "/proc/\(process)/fd"
        let numbers = ((try? Files.names(inDirectory: folder)) ?? []).filter { number in
            let link = "\(folder)/\(number)"
            // The name first: asking about a file on a dead network mount could take for ever.
            return target(of: link)?.hasSuffix(name) == true && (try? Files.identity(link)) == identity
        }
        return numbers.map { Opening(process: process, descriptor: $0) }
    }

    private static func target(of link: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(link, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
