#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The descriptors that the program was started with.
///
/// Every descriptor that the program opens itself is closed in programs that it starts (`FD_CLOEXEC`), and the system
/// has closed such descriptors when it started this one: a descriptor without that flag is inherited.
package enum InheritedDescriptors {
    /// Opens `/dev/null` for each standard stream that is closed, so that no file which the program opens gets its number.
    /// Called first of all, before anything is opened.
    ///
    /// It is opened the wrong way round, so that using the stream still fails with `EBADF`: results that nobody gets must not
    /// look as if they were written.
    /// - SeeAlso: <https://www.gnu.org/software/gnulib/manual/html_node/stdopen.html>
    package static func reserveStandardStreams() {
        for (number, flags) in [(0, O_WRONLY), (1, O_RDONLY), (2, O_RDONLY)] as [(Int32, Int32)] {
            // The lowest free number is the stream's: those below it are open.
            if fcntl(number, F_GETFD) == -1 { _ = open("/dev/null", flags) }
        }
    }

    /// Refuses a descriptor that the program was not started with.
    ///
    /// - Throws: ``SystemError`` `EBADF`.
    package static func require(_ number: Int32) throws(SystemError) {
        let flags = fcntl(number, F_GETFD)
        guard flags != -1, flags & FD_CLOEXEC == 0 else {
            throw SystemError(
                call: "fcntl", path: "file descriptor \(number)", errorNumber: EBADF,
                detail: "the program was not started with it")
        }
    }
}
