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

        /// Whether the file may be written by it; nil where it is gone, or the system does not tell.
        package var isForWriting: Bool? {
            let path = "/proc/\(process)/fdinfo/\(descriptor)"
            guard let text = try? Files.contents(of: path, limitBytes: Limits.descriptorInfoBytes) else { return nil }
            return ProcessInspector.flags(inDescriptorInfo: text).map { $0 & O_ACCMODE != O_RDONLY }
        }
    }

    /// The flags that a descriptor was opened with: `flags:\t0100002`, in octal.
    static func flags(inDescriptorInfo text: [UInt8]) -> Int32? {
        let lines = text.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        guard let line = lines.first(where: { $0.hasPrefix("flags:") }),
            let flags = Int64(line.dropFirst(6).drop { $0 == "\t" || $0 == " " }, radix: 8)
        else { return nil }
        return Int32(truncatingIfNeeded: flags)
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
