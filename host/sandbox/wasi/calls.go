package wasi

import (
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
)

// stdioOnly answers badFile for descriptors other than the three.
func stdioOnly(then systemCall) systemCall {
	return func(p *Process, memory api.Memory, args []uint64) errno {
		if uint32(args[0]) > stderr {
			return badFile
		}
		return then(p, memory, args)
	}
}

func emptyList(_ *Process, memory api.Memory, args []uint64) errno {
	if !memory.WriteUint32Le(uint32(args[0]), 0) || !memory.WriteUint32Le(uint32(args[1]), 0) {
		return badAddress
	}
	return success
}

func endOfFile(_ *Process, memory api.Memory, args []uint64) errno {
	if uint32(args[0]) != stdin {
		return badFile
	}
	return store32(memory, args[3], 0)
}

func store32(memory api.Memory, ptr uint64, value uint32) errno {
	if !memory.WriteUint32Le(uint32(ptr), value) {
		return badAddress
	}
	return success
}

// descriptorStatus writes a character device with the rights to read and
// write: filetype u8, flags u16 at 2, rights u64 at 8 and 16.
func descriptorStatus(_ *Process, memory api.Memory, args []uint64) errno {
	const characterDevice, readAndWrite = 2, 1<<1 | 1<<6
	var status [24]byte
	status[0] = characterDevice
	binary.LittleEndian.PutUint64(status[8:], readAndWrite)
	if !memory.Write(uint32(args[1]), status[:]) {
		return badAddress
	}
	return success
}

const mostVectors = 1024 // of one write

func write(p *Process, memory api.Memory, args []uint64) errno {
	fd, vectors, n := uint32(args[0]), uint32(args[1]), uint32(args[2])
	if fd == stdin {
		return badFile
	}
	if n > mostVectors {
		return invalid
	}
	sink := &p.Stdout
	if fd == stderr {
		sink = &p.Stderr
	}
	var written uint32
	for i := range n {
		data, ok := vector(memory, vectors+8*i)
		if !ok {
			return badAddress
		}
		p.copied += sink.Add(data)
		written += uint32(len(data))
	}
	return store32(memory, args[3], written)
}

// vector is the memory that a (ptr, len) pair in memory points to.
func vector(memory api.Memory, at uint32) ([]byte, bool) {
	ptr, ok := memory.ReadUint32Le(at)
	if !ok {
		return nil, false
	}
	length, ok := memory.ReadUint32Le(at + 4)
	if !ok {
		return nil, false
	}
	return memory.Read(ptr, length)
}

const mostRandom = 1 << 20 // bytes of one call

func random(p *Process, memory api.Memory, args []uint64) errno {
	if uint32(args[1]) > mostRandom {
		return invalid
	}
	data, ok := memory.Read(uint32(args[0]), uint32(args[1]))
	if !ok {
		return badAddress
	}
	p.randomBytes(data)
	p.drawn += len(data)
	return success
}
