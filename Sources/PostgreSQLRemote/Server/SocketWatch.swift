#if PostgreSQL
    import CPostgreSQL
    import Dispatch

    /// Waits once for a socket, without a thread.
    ///
    /// It has a descriptor of its own: libpq may close its one at any time, and the number of a closed descriptor may be
    /// that of another file a moment later.
    final class SocketWatch {
        private var sources: [any DispatchSourceProtocol] = []

        /// Calls `ready` once on the queue, unless ``stop()`` is called there before.
        ///
        /// - Returns: nil where there is no socket, or no descriptor is left.
        init?(socket: Int32, forWriting: Bool, forReading: Bool, _ queue: DispatchQueue, ready: @escaping () -> Void) {
            let descriptor = socket < 0 ? -1 : cpostgresql_duplicate(socket)
            guard descriptor >= 0 else { return nil }
            if forReading { sources.append(DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)) }
            if forWriting { sources.append(DispatchSource.makeWriteSource(fileDescriptor: descriptor, queue: queue)) }
            let group = DispatchGroup()
            for source in sources {
                group.enter()
                source.setCancelHandler { group.leave() }
                source.setEventHandler { [weak self] in
                    guard let self, !sources.isEmpty else { return }
                    stop()
                    ready()
                }
            }
            // Closed when nothing refers to it any more.
            group.notify(queue: queue) { cpostgresql_close(descriptor) }
            for source in sources { source.resume() }
        }

        deinit { stop() }

        func stop() {
            for source in sources { source.cancel() }
            sources = []
        }
    }
#endif
