"""Readers: conversion of pages, documents and pictures for models, in processes that can open no files."""
